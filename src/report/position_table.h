#pragma once
// Loss by position: where in a long window a scheme starts to fail.

#include <vector>

#include "core/results.h"
#include "report/table.h"

namespace posenc {

/// For every train length, unit, split and protocol hash one table at its longest length: schemes down, offset buckets across,
/// mean NLL in nats (over the seeds). The other lengths are in the JSON report.
std::vector<Table> position_tables(const std::vector<Results>& runs);

}  // namespace posenc

#pragma once
// Reads the texts of an R lazy-load database (`Rdata.rdb` of an installed R package) without R. The file is a row of objects,
// each a 4-byte big-endian length and a zlib stream of R's XDR serialisation (R Internals, §1.8). Character vectors are read;
// other objects are passed over. The file is not trusted: DataError naming it and the offset, and no allocation beyond what its
// size can justify.

#include <string>
#include <string_view>
#include <vector>

namespace posenc {

/// Every character vector in the file, in order, as text: each element followed by one newline. `name` labels the file in
/// messages.
std::vector<std::string> read_rdb_texts(std::string_view bytes, const std::string& name);

}  // namespace posenc

#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "report/table.h"
#include "run/experiment.h"
#include "run/probes.h"
#include "run/trained.h"

namespace posenc {
namespace {

/// What is found goes into the tables and the JSON at once.
struct Findings {
  std::vector<Table> tables;
  Json json = Json::object();
};

std::string number(double x) { return fmt::format("{:.4g}", x); }

void add_distances(const Experiment& e, Findings& out) {
  const DistanceCurves curves =
      distance_curves(e, {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024});
  Json json = {{"distances", curves.distances}};
  Table table{.title = "By distance, in front of the softmax", .header = {"distance"}};
  if (!curves.rotation.empty()) table.header.push_back("rotation"), json["rotation"] = curves.rotation;
  if (!curves.bias.empty()) json["bias"] = curves.bias;
  for (std::size_t h = 0; h < curves.bias.size(); ++h) table.header.push_back("bias, head " + std::to_string(h));
  for (std::size_t i = 0; i < curves.distances.size(); ++i) {
    std::vector<std::string> row = {std::to_string(curves.distances[i])};
    if (!curves.rotation.empty()) row.push_back(number(curves.rotation[i]));
    for (const auto& head : curves.bias) row.push_back(number(head[i]));
    table.rows.push_back(std::move(row));
  }
  if (!curves.rotation.empty())
    table.notes.push_back("rotation: q.k of equal unit vectors that far apart, the mean of cos over the turned pairs");
  if (table.header.size() == 1)
    table.rows.clear(), table.notes.push_back(e.model.position.name + " has neither a bias nor a rotation");
  out.tables.push_back(std::move(table));
  out.json["distance"] = std::move(json);
}

void add_order(const Experiment& e, Findings& out) {
  const OrderOfContext o = order_of_context(e);
  out.json["order"] = {{"unmasked_no_position", o.unmasked},
                       {"causal_no_position_one_layer", o.causal_one_layer},
                       {"causal_no_position_two_layers", o.causal},
                       {"scheme_one_layer", o.scheme_one_layer},
                       {"scheme_two_layers", o.scheme},
                       {"shift", o.shift}};
  Table table{.title = "How much the last token's output changes when the tokens before it come in another order",
              .header = {"attention", "relative change"},
              .align = {Align::kLeft}};
  table.rows = {{"no mask, no positions, two layers", number(o.unmasked)},
                {"causal mask, no positions, one layer", number(o.causal_one_layer)},
                {"causal mask, no positions, two layers", number(o.causal)},
                {"causal mask, " + position_label(e) + ", one layer", number(o.scheme_one_layer)},
                {"causal mask, " + position_label(e) + ", two layers", number(o.scheme)},
                {"(all positions moved by 7, two layers)", number(o.shift)}};
  table.notes = {
      "Attention sees a set: without mask and positions its order changes nothing but rounding. Under a causal mask the last "
      "token still sees",
      "a set in the first layer; from the second on it sees outputs that depend on what stood before each. Untrained models, "
      "float64."};
  out.tables.push_back(std::move(table));
}

void add_disturbances(const std::string& directory, const Experiment& e, Findings& out) {
  const TrainedRun run = load_trained(directory, e);
  const Dataset dataset = load_dataset(e.data, run.tokenizer);
  Table table{.title = "What the order and the tokens of the context are worth, windows of " + std::to_string(e.train.length),
              .header = {"context", "targets", "nll", "change", "stderr"},
              .align = {Align::kLeft}};
  Json rows = Json::array();
  for (const Disturbance& d : disturbances(*run.model, dataset, e, eval_settings(e))) {
    table.rows.push_back({d.what, std::to_string(d.targets), fmt::format("{:.4f}", d.nll), fmt::format("{:+.4f}", d.change),
                          d.change_stderr ? fmt::format("{:.4f}", *d.change_stderr) : ""});
    rows.push_back({{"context", d.what},
                    {"targets", d.targets},
                    {"nll", d.nll},
                    {"change", d.change},
                    {"stderr", d.change_stderr ? Json(*d.change_stderr) : Json()}});
  }
  out.tables.push_back(std::move(table));
  out.json["order"] = std::move(rows);
}

}  // namespace

int run_inspect(const InspectRequest& request, const Experiment& e) {
  const bool attends = e.model.kind == "transformer";
  Findings found;
  found.json = {{"target", request.target}, {"position", position_label(e)}};
  for (const std::string& probe : request.probes) {
    if (probe == "distance" && attends) add_distances(e, found);
    else if (probe == "distance") throw ConfigError(e.model.kind + " has no positions");
    else if (request.is_run) add_disturbances(request.target, e, found);
    else add_order(e, found);
  }
  if (request.format == "json") return deliver(dump_json(found.json), ""), 0;
  std::string text;
  for (const Table& table : found.tables) text += (text.empty() ? "" : "\n") + render(table, "text");
  deliver(text, "");
  return 0;
}

}  // namespace posenc

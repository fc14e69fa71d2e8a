#include "cli/command.h"
#include "core/error.h"
#include "data/tasks/task.h"
#include "extend/extension.h"
#include "model/position.h"
#include "report/table.h"
#include "schemes/info.h"

namespace posenc {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string traits(const SchemeInfo& s) {
  std::vector<std::string> words;
  if (s.traits.relative) words.push_back("relative");
  if (s.traits.bounded) words.push_back("bounded");
  if (s.traits.real_positions) words.push_back("real positions");
  if (s.traits.rotary) words.push_back("rotary");
  if (s.traits.content_dependent) words.push_back("content dependent");
  if (s.traits.per_layer) words.push_back("per layer");
  if (!s.traits.softmax) words.push_back("no softmax");
  return joined(words);
}

Json describe(const std::vector<FieldDoc>& fields) {
  Json parameters = Json::array();
  for (const FieldDoc& p : fields) {
    parameters.push_back({{"name", p.name}, {"type", p.type}, {"default", p.default_value}, {"rule", p.rule}, {"help", p.help}});
  }
  return parameters;
}

template <class Info>
Json describe(const Info& info) {
  return {{"name", info.name},
          {"aliases", info.aliases},
          {"title", info.title},
          {"paper", info.paper},
          {"parameters", describe(info.parameters())}};
}

std::string as_json() {
  Json all = {{"schemes", Json::array()}, {"extensions", Json::array()}, {"axes", Json::array()}, {"tasks", Json::array()}};
  for (const SchemeInfo& s : schemes()) {
    Json one = describe(s);
    one["traits"] = {
        {"relative", s.traits.relative}, {"bounded", s.traits.bounded},     {"real_positions", s.traits.real_positions},
        {"rotary", s.traits.rotary},     {"per_layer", s.traits.per_layer}, {"content_dependent", s.traits.content_dependent},
        {"softmax", s.traits.softmax},   {"hooks", s.traits.hooks}};
    one["scale"] = s.scale;
    all["schemes"].push_back(std::move(one));
  }
  for (const ExtensionInfo& e : extensions()) all["extensions"].push_back(describe(e));
  for (const AxisDoc& axis : position_axes())
    all["axes"].push_back({{"name", axis.name}, {"title", axis.help}, {"parameters", describe(axis.parameters)}});
  for (const TaskInfo& t : tasks()) {
    Json one = describe(t);
    one["length"] = t.length;
    all["tasks"].push_back(std::move(one));
  }
  return dump_json(all);
}

std::string parameters(const std::vector<FieldDoc>& fields) {
  std::vector<std::string> words;
  for (const FieldDoc& p : fields) words.push_back(p.name + "=" + p.default_value);
  return joined(words);
}

std::string as_table(const std::string& format) {
  Table table;
  table.header = {"name", "kind", "what", "aliases", "traits", "parameters", "paper"};
  for (const SchemeInfo& s : schemes())
    table.rows.push_back({s.name, "scheme", s.title, joined(s.aliases), traits(s), parameters(s.parameters()), s.paper});
  for (const ExtensionInfo& e : extensions())
    table.rows.push_back({e.name, "extension", e.title, joined(e.aliases), "", parameters(e.parameters()), e.paper});
  for (const AxisDoc& axis : position_axes())
    table.rows.push_back({axis.name, "axis", axis.help, "", "", parameters(axis.parameters), ""});
  for (const TaskInfo& t : tasks())
    table.rows.push_back(
        {t.name, "task", t.title, joined(t.aliases), "length: " + t.length, parameters(t.parameters()), t.paper});
  table.align.assign(table.header.size(), Align::kLeft);
  return render(table, format);
}

}  // namespace

void add_schemes(CLI::App& app, const GlobalOptions&, Action& action) {
  auto* command = app.add_subcommand(
      "schemes", "every positional scheme, extension, axis and task: names, paper, traits, parameters and defaults");
  auto format = std::make_shared<std::string>("text");
  command->add_option("--format", *format, "text, md or json")->check(CLI::IsMember({"text", "md", "json"}));
  command->callback([format, &action] {
    action = [format] {
      deliver(*format == "json" ? as_json() : as_table(*format), "");
      return 0;
    };
  });
}

}  // namespace posenc

#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "core/error.h"

namespace posenc {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// The code point at `at`, which moves past it; U+FFFD for a byte that starts no valid sequence.
char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const std::size_t more = lead >= 0xF0 && lead < 0xF5   ? 3
                           : lead >= 0xE0 && lead < 0xF0 ? 2
                           : lead >= 0xC2 && lead < 0xE0 ? 1
                                                         : 0;
  if (more == 0 || at + more > text.size()) return kReplacement;
  char32_t code = lead & (0x3F >> more);
  for (std::size_t i = 0; i < more; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0) != 0x80) return kReplacement;
    code = code << 6 | (byte & 0x3F);
  }
  constexpr std::array<char32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  if (code < kLeast[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return kReplacement;
  at += more;
  return code;
}

struct Range {
  char32_t first, last;
};

template <std::size_t N>
bool within(char32_t code, const std::array<Range, N>& ranges) {
  return std::ranges::any_of(ranges, [code](Range range) { return code >= range.first && code <= range.last; });
}

/// Controls (C0, DEL, C1), line separators and bidirectional overrides: what could move a terminal's cursor or reorder its text.
bool is_control(char32_t code) {
  constexpr std::array<Range, 5> kControls = {{{0, 0x1F}, {0x7F, 0x9F}, {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}}};
  return within(code, kControls);
}

/// wcwidth(3) would do, were it not bound to the locale. Unicode 15: combining marks; East Asian Width W and F, and emoji.
std::size_t width_of(char32_t code) {
  constexpr std::array<Range, 7> kCombining = {
      {{0x300, 0x36F}, {0x483, 0x489}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
  constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115F},
                                           {0x2E80, 0x303E},
                                           {0x3041, 0xA4CF},
                                           {0xAC00, 0xD7A3},
                                           {0xF900, 0xFAFF},
                                           {0xFE30, 0xFE6F},
                                           {0xFF00, 0xFF60},
                                           {0x1F300, 0x1FAFF},
                                           {0x20000, 0x3FFFD}}};
  return within(code, kCombining) ? 0 : within(code, kWide) ? 2 : 1;
}

/// Valid UTF-8 on one line: white space becomes a blank, other controls and broken bytes become U+FFFD.
std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t code = next_code_point(text, at);
    if (code == '\n' || code == '\r' || code == '\t') out += ' ';
    else if (code == kReplacement || is_control(code)) out += "\xEF\xBF\xBD";
    else out += text.substr(start, at - start);
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) width += width_of(next_code_point(text, at));
  return width;
}

Align alignment(const Table& table, std::size_t column) {
  return column < table.align.size() ? table.align[column] : Align::kRight;
}

std::string render_text(const Table& table) {
  std::vector<std::size_t> widths(table.header.size());
  std::vector<std::vector<std::string>> lines = {table.header};
  lines.insert(lines.end(), table.rows.begin(), table.rows.end());
  for (auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      line[i] = printable(line[i]);
      widths[i] = std::max(widths[i], display_width(line[i]));
    }
  }
  std::string out = table.title.empty() ? "" : printable(table.title) + "\n\n";
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - display_width(line[i]), ' ');
      text += (i == 0 ? "" : "  ") + (alignment(table, i) == Align::kLeft ? line[i] + padding : padding + line[i]);
    }
    out += text.erase(text.find_last_not_of(' ') + 1) + "\n";
  }
  if (!table.notes.empty()) out += "\n";
  for (const std::string& note : table.notes) out += "  " + printable(note) + "\n";
  return out;
}

std::string escape_md(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("|\\`<[*").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string render_md(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string out = "|";
    for (const std::string& cell : cells) out += " " + escape_md(cell) + " |";
    return out + "\n";
  };
  std::string out = table.title.empty() ? "" : "### " + escape_md(table.title) + "\n\n";
  out += line(table.header) + "|";
  for (std::size_t i = 0; i < table.header.size(); ++i) out += alignment(table, i) == Align::kLeft ? "---|" : "--:|";
  out += "\n";
  for (const auto& row : table.rows) out += line(row);
  if (!table.notes.empty()) out += "\n";
  for (const std::string& note : table.notes) out += "- " + escape_md(note) + "\n";
  return out;
}

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

std::string escape_csv(std::string text) {
  if (!text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos && !is_number(text))
    text.insert(0, "'");
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string render_csv(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string out;
    for (const std::string& cell : cells) out += (&cell == cells.data() ? "" : ",") + escape_csv(cell);
    return out + "\n";
  };
  std::string out = line(table.header);
  for (const auto& row : table.rows) out += line(row);
  return out;
}

int decimals(double value) { return std::abs(value) < 10 ? 3 : std::abs(value) < 100 ? 2 : 1; }

}  // namespace

std::string render(const Table& table, const std::string& format) {
  for (const auto& row : table.rows)
    POSENC_CHECK(row.size() == table.header.size(), "a row of " + table.title + " is too long or too short");
  if (format == "md") return render_md(table);
  if (format == "csv") return render_csv(table);
  POSENC_CHECK(format == "text", "no renderer for " + format);
  return render_text(table);
}

void require_format(const std::string& format) {
  if (format == "text" || format == "md" || format == "csv" || format == "json") return;
  throw ConfigError(fmt::format("unknown format \"{}\" (there are: text, md, csv, json)", format));
}

std::string short_number(double value) { return fmt::format("{:.{}f}", value, decimals(value)); }

std::string short_number(double value, std::optional<double> error) {
  return error ? fmt::format("{:.{}f} ± {:.{}f}", value, decimals(value), *error, decimals(value)) : short_number(value);
}

std::string short_perplexity(std::optional<double> ppl, std::optional<double> error) {
  return ppl && *ppl <= 1000 ? short_number(*ppl, error) : ">1e3";
}

std::string exact_number(std::optional<double> value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace posenc

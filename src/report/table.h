#pragma once
// One table, three renderings. A table is rows of ready-made cell texts under a header, with a title above and notes below;
// whoever fills it decides how numbers look, the renderers only lay out and escape:
//   text  columns padded with blanks by display width (UTF-8: accents count 0, East Asian wide characters 2); control characters
//         become U+FFFD
//   md    a Markdown table; | \ ` < [ * escaped and line breaks turned into blanks, so that no cell can break a row
//   csv   header and rows only, RFC 4180 quoting with LF line ends; a cell a spreadsheet would run as a formula gets a leading '
// All input may be hostile (run names come from files).

#include <optional>
#include <string>
#include <vector>

namespace posenc {

enum class Align { kLeft, kRight };

struct Table {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the header
  std::vector<Align> align;                    ///< per column; columns beyond its end are right-aligned
  std::vector<std::string> notes;
};

/// `format` is text, md or csv.
std::string render(const Table& table, const std::string& format);

/// Throws ConfigError naming the formats there are unless `format` is text, md, csv or json.
void require_format(const std::string& format);

/// "4.537", "45.4", "453.7": for people, four digits or so. The second form adds " ± error" with as many decimals.
std::string short_number(double value);
std::string short_number(double value, std::optional<double> error);

/// As short_number; ">1e3" above 1000 and when absent, that is when exp(nll) overflowed.
std::string short_perplexity(std::optional<double> ppl, std::optional<double> error = std::nullopt);

/// All digits, for machines; "" when absent.
std::string exact_number(std::optional<double> value);

}  // namespace posenc

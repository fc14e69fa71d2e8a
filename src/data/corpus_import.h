#pragma once
// Turns what the packages of a named corpus hold into its three text files. `scripts/fetch_corpora` downloads and unpacks the
// packages and calls this through `posenc corpus import NAME SOURCE`. Everything is verified against the table in corpora.cpp
// before anything is written.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace posenc {

/// Installs a corpus under data_directory(), each file in one step. `source` is
///   austen  the folder into which the package r-cran-janeaustenr was unpacked
///   kjv     the file with the output of `bible -f gen1:1-rev22:21`: a verse per line after its reference ("1Cor13:13 And now …")
/// ConfigError: unknown name. IoError: cannot read or write. DataError: not the text expected.
void import_corpus(const std::string& name, const std::filesystem::path& source);

/// train, valid and test from the bytes of the package's Rdata.rdb; novels are recognised by their SHA-256.
std::map<std::string, std::string> split_austen(std::string_view rdb, const std::string& source);

/// train, valid and test by whole books, in their order; references are dropped, every verse ends with a newline.
std::map<std::string, std::string> split_kjv(std::string_view verses, const std::string& source);

}  // namespace posenc

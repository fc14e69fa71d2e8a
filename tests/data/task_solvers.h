#pragma once
// An answer to every task's question, found from the question alone and by another way than the task makes it.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/json.h"

namespace posenc {

using Solver = std::function<std::string(const std::string& prompt, const Json& parameters)>;

inline std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

inline std::string solve_copy(const std::string& prompt, const Json& p) {
  const std::string form = p.at("form");
  std::string answer = prompt;
  if (form == "replaced") {
    for (char& c : answer) c = c == "abcdefghijklmnopqrstuvwxyz"[p.at("symbols").get<int>() - 1] ? 'a' : static_cast<char>(c + 1);
  }
  return form.ends_with("_twice") ? answer + prompt : answer;
}

inline std::string solve_reverse(const std::string& prompt, const Json& p) {
  std::vector<std::string> parts;
  if (p.at("form") == "words") parts = split_at(prompt, ' ');
  else
    for (const char c : prompt) parts.push_back(std::string(1, c));
  std::string answer;
  while (!parts.empty()) {
    answer += parts.back();
    parts.pop_back();
    if (p.at("form") == "words" && !parts.empty()) answer += ' ';
  }
  return p.at("form") == "twice" ? answer + answer : answer;
}

inline std::string solve_selective_copy(const std::string& prompt, const Json&) {
  return std::regex_replace(prompt, std::regex("\\."), "");
}

inline std::string solve_sorting(const std::string& prompt, const Json& p) {
  if (p.at("form") == "symbols") {
    std::multiset<char> letters(prompt.begin(), prompt.end());
    return {letters.begin(), letters.end()};
  }
  std::multiset<int> numbers;
  for (const std::string& number : split_at(prompt, ',')) numbers.insert(std::stoi(number));
  std::string answer;
  for (const int number : numbers) answer += (answer.empty() ? "" : ",") + std::to_string(number);
  return answer;
}

/// With 128-bit integers, so up to 38 digits. Index hints are taken off and put back on.
inline std::string solve_addition(const std::string& prompt, const Json& p) {
  const bool hinted = p.at("index_hints");
  std::string hints;
  unsigned __int128 sum = 0;
  std::size_t digits = 0;
  for (const std::string& number : split_at(prompt, '+')) {
    unsigned __int128 value = 0;
    digits = 0;
    hints.clear();
    for (const char c : number) {
      if (c >= '0' && c <= '9') value = value * 10 + static_cast<unsigned>(c - '0'), ++digits;
      else hints += c;
    }
    sum += value;
  }
  std::string answer;
  for (std::size_t i = 0; i < (hinted ? digits : digits + 1); ++i) {
    std::string place(1, static_cast<char>('0' + static_cast<int>(sum % 10)));
    if (hinted) place = hints[digits - 1 - i] + place;
    answer = p.at("reversed") ? answer + place : place + answer;
    sum /= 10;
  }
  return answer;
}

inline std::string solve_summation(const std::string& prompt, const Json& p) {
  int sum = 0;
  for (const char c : prompt) sum += c - '0';
  return std::to_string(sum % p.at("modulus").get<int>());
}

/// Horner-free: every term by repeated multiplication in 64 bits, reduced at the end (9·9^9 each).
inline std::string solve_polynomial(const std::string& prompt, const Json& p) {
  const std::vector<std::string> halves = split_at(prompt, ':');
  std::int64_t value = 0;
  for (const std::string& term : split_at(halves.at(1), '+')) {
    std::int64_t product = term.at(0) - '0';
    for (int e = term.at(2) - '0'; e > 0; --e) product *= std::stoi(halves.at(0));
    value += product;
  }
  return std::to_string(value % p.at("modulus").get<std::int64_t>());
}

/// Summand by summand, each a product.
inline std::string solve_modular_arithmetic(const std::string& prompt, const Json& p) {
  const std::int64_t modulus = p.at("modulus");
  std::int64_t total = 0;
  const std::regex summand("([+-]?)([0-9](\\*[0-9])*)");
  for (std::sregex_iterator it(prompt.begin(), prompt.end(), summand), end; it != end; ++it) {
    std::int64_t product = 1;
    for (const std::string& factor : split_at((*it)[2], '*')) product = product * std::stoi(factor) % modulus;
    total += (*it)[1] == "-" ? modulus - product : product;
  }
  return std::to_string(total % modulus);
}

inline std::string solve_parity(const std::string& prompt, const Json&) {
  bool odd = false;
  for (const char bit : prompt) odd ^= bit == '1';
  return odd ? "1" : "0";
}

/// From the last reset on, the increments are counted.
inline std::string solve_counting(const std::string& prompt, const Json&) {
  const std::size_t question = prompt.find('?');
  const char name = prompt.at(question + 1), capital = static_cast<char>(name - 'a' + 'A');
  const std::string run = prompt.substr(0, question);
  const std::size_t reset = run.rfind(capital);
  const std::string counted = reset == std::string::npos ? run : run.substr(reset);
  return std::to_string(std::count(counted.begin(), counted.end(), name));
}

/// Erases each pop together with what it takes, until none is left.
inline std::string solve_stack(const std::string& prompt, const Json&) {
  std::string run = prompt;
  run.erase(run.find('|'), 1);
  for (std::size_t pop = run.find('-'); pop != std::string::npos; pop = run.find('-'))
    pop == 0 ? run.erase(0, 1) : run.erase(pop - 1, 2);
  std::reverse(run.begin(), run.end());
  return run + ".";
}

inline std::string solve_flip_flop(const std::string& prompt, const Json&) {
  return std::string(1, prompt.at(prompt.rfind('w') + 1));
}

inline std::string solve_recall(const std::string& prompt, const Json&) {
  std::map<std::string, char> pairs;
  const std::size_t question = prompt.find('?');
  for (std::size_t i = 0; i < question; i += 3) {
    if (!pairs.emplace(prompt.substr(i, 2), prompt.at(i + 2)).second) return "a key stands twice";
  }
  return std::string(1, pairs.at(prompt.substr(question + 1)));
}

inline std::string solve_induction(const std::string& prompt, const Json&) {
  const std::size_t last = prompt.size() - 1;
  if (std::count(prompt.begin(), prompt.end(), prompt[last]) != 2) return "the last symbol does not stand there twice";
  return std::string(1, prompt.at(prompt.find(prompt[last]) + 1));
}

inline std::string solve_variable_tracking(const std::string& prompt, const Json& p) {
  const std::size_t question = prompt.find('?');
  std::map<std::string, std::string> value_of;
  std::set<std::string> values;
  std::string answer;
  for (const std::string& assignment : split_at(prompt.substr(0, question), ',')) {
    const std::string name = assignment.substr(0, 2), right = assignment.substr(3);
    if (value_of.contains(name)) return "a variable is assigned twice";
    value_of[name] = value_of.contains(right) ? value_of[right] : right;
    values.insert(value_of[name]);
    if (value_of[name] == prompt.substr(question + 1)) answer += name;
  }
  return static_cast<int>(values.size()) == p.at("chains").get<int>() ? answer : "wrong number of chains";
}

/// The only number that follows the key, which stands in the question too.
inline std::string solve_hidden(const std::string& prompt, const std::string& before, const std::string& question) {
  if (!prompt.ends_with(question)) return "the question is not at the end";
  const std::regex statement(before + " ([0-9]+)\\. ");
  std::smatch found;
  if (!std::regex_search(prompt, found, statement)) return "nothing is hidden";
  const std::string rest = found.suffix();
  return std::regex_search(rest, statement) ? "hidden twice" : found[1].str();
}

inline std::string solve_passkey(const std::string& prompt, const Json&) {
  return solve_hidden(prompt, "the pass key is", "what is the pass key?");
}

inline std::string solve_needle(const std::string& prompt, const Json& p) {
  const std::regex any("[a-z]+ has number [0-9]+\\. ");
  if (std::distance(std::sregex_iterator(prompt.begin(), prompt.end(), any), {}) != p.at("needles").get<int>())
    return "wrong number of needles";
  const std::string key = prompt.substr(prompt.size() - 6, 5);
  return solve_hidden(prompt, key + " has number", "which number has " + key + "?");
}

/// SCAN's rules from the outside in, as its paper has them: conjunction, repetition, manner, direction, verb.
inline std::string solve_scan(const std::string& command, const Json& none) {
  for (const char joint : {'&', '@'}) {
    const std::size_t at = command.find(joint);
    if (at == std::string::npos) continue;
    const std::string first = solve_scan(command.substr(0, at), none), second = solve_scan(command.substr(at + 1), none);
    return joint == '&' ? first + second : second + first;
  }
  const char last = command.back();
  if (last == '2' || last == '3') {
    const std::string once = solve_scan(command.substr(0, command.size() - 1), none);
    return last == '2' ? once + once : once + once + once;
  }
  static const std::map<char, std::string> actions = {{'w', "W"}, {'l', "L"}, {'r', "R"}, {'j', "J"}, {'t', ""}};
  const std::string action = actions.at(command[0]);
  if (command.size() == 1) return action;
  const std::string turn = last == '<' ? "[" : "]";
  if (command.size() == 2) return turn + action;
  const std::string once = turn + action;
  return command[1] == 'o' ? turn + turn + action : once + once + once + once;
}

inline const std::map<std::string, Solver>& solvers() {
  static const std::map<std::string, Solver> all = {{"copy", solve_copy},
                                                    {"reverse", solve_reverse},
                                                    {"selective_copy", solve_selective_copy},
                                                    {"sorting", solve_sorting},
                                                    {"addition", solve_addition},
                                                    {"summation", solve_summation},
                                                    {"polynomial", solve_polynomial},
                                                    {"modular_arithmetic", solve_modular_arithmetic},
                                                    {"parity", solve_parity},
                                                    {"counting", solve_counting},
                                                    {"stack_manipulation", solve_stack},
                                                    {"flip_flop", solve_flip_flop},
                                                    {"associative_recall", solve_recall},
                                                    {"induction", solve_induction},
                                                    {"variable_tracking", solve_variable_tracking},
                                                    {"passkey", solve_passkey},
                                                    {"needle", solve_needle},
                                                    {"scan", solve_scan}};
  return all;
}

}  // namespace posenc

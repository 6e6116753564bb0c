// Golden texts: files that explain a state machine to a reader, and that a test compares to what it does.
//
// A text is prose, events, and below each event, indented, the machine's answers:
//   Every gradient is a commit of its own.      prose, which stays
//   > commit 1                                  an event that has no time
//   0.5 w0 leaves                               an event at 0.5 s
//       make 1                                  an answer
// If PACELINE_REWRITE=1, the answers in the file are replaced by those that the machine gives.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::golden {

// The words after the time or the ">" of an event.
class Event {
 public:
  explicit Event(const std::string& line) {
    std::istringstream in(line);
    std::string first;
    in >> first;
    char* end = nullptr;
    seconds_ = std::strtod(first.c_str(), &end);
    is_one_ = first == ">" || (!first.empty() && *end == '\0');
    for (std::string word; in >> word;) words_ += (words_.empty() ? "" : " ") + word;
  }

  // False for prose.
  bool is_one() const { return is_one_; }
  double seconds() const { return seconds_; }
  const std::string& words() const { return words_; }

  // If the event has the words of `pattern`, the values at its "*", in order. A "*" is one word; as the last
  // word of the pattern, one or more.
  std::optional<std::vector<std::string>> like(const std::string& pattern) const {
    return like(words_, pattern);
  }
  static std::optional<std::vector<std::string>> like(const std::string& words, const std::string& pattern) {
    std::istringstream in(words), wanted(pattern);
    std::vector<std::string> values;
    std::string word;
    for (std::string one; wanted >> one;) {
      if (!(in >> word) || (one != "*" && one != word)) return std::nullopt;
      if (one == "*") values.push_back(word);
    }
    const bool open = pattern.ends_with("*");
    while (in >> word) {
      if (!open) return std::nullopt;
      values.back() += " " + word;
    }
    return values;
  }

 private:
  std::string words_;
  double seconds_ = 0;
  bool is_one_ = false;
};

// The parts of a line between "; ", as in "run of 3 hosts; copies 2". A phrase for which the test does not ask fails
// the test.
class Phrases {
 public:
  explicit Phrases(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find("; ", at), text.size());
      rest_.push_back(text.substr(at, end - at));
      at = end + 2;
    }
  }
  Phrases(const Phrases&) = delete;
  Phrases& operator=(const Phrases&) = delete;
  ~Phrases() { EXPECT_TRUE(rest_.empty()) << "this phrase is unknown: " << rest_.front(); }

  bool has(const std::string& phrase) { return std::erase(rest_, phrase) > 0; }
  // The rest of the phrase that begins with these words.
  std::optional<std::string> after(const std::string& words) {
    for (auto one = rest_.begin(); one != rest_.end(); ++one) {
      if (!one->starts_with(words + " ")) continue;
      const std::string value = one->substr(words.size() + 1);
      rest_.erase(one);
      return value;
    }
    return std::nullopt;
  }
  std::optional<int> number_after(const std::string& words) {
    const std::optional<std::string> value = after(words);
    return value ? std::optional(std::stoi(*value)) : std::nullopt;
  }

 private:
  std::vector<std::string> rest_;
};

using Answers = std::vector<std::string>;

// The text as it should be. `answer` takes a line that is not indented; it gives the lines below it, with
// their indent.
inline std::string with_answers(const std::string& text,
                                const std::function<Answers(const std::string&)>& answer) {
  std::istringstream in(text);
  std::string all;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  ")) continue;
    all += line + "\n";
    for (const std::string& one : answer(line)) all += one + "\n";
  }
  return all;
}

// Compares the text to what the machine answers, or rewrites it. `test`: the program that rewrites it.
inline void expect_golden(const std::filesystem::path& path, const std::string& test,
                          const std::function<Answers(const std::string&)>& answer) {
  std::stringstream found;
  found << std::ifstream(path).rdbuf();
  ASSERT_NE(found.str(), "") << path << ": run from the root of the sources";
  const std::string expected = with_answers(found.str(), answer);
  if (std::getenv("PACELINE_REWRITE") != nullptr) {
    std::ofstream(path) << expected;
  } else {
    EXPECT_EQ(found.str(), expected) << "if the new answers are right: PACELINE_REWRITE=1 " << test;
  }
}

// The same for a machine that takes events and not each line: nothing follows prose, which `read` sees. `take` gives
// nullopt for an event that it does not know; then the test fails.
inline void expect_story(
    const std::filesystem::path& path, const std::string& test,
    const std::function<std::optional<Answers>(const Event&)>& take,
    const std::function<void(const std::string&)>& read = [](const std::string&) {}) {
  expect_golden(path, test, [&](const std::string& line) -> Answers {
    const Event event(line);
    if (!event.is_one()) {
      read(line);
      return {};
    }
    SCOPED_TRACE(path.string() + ": " + line);
    const std::optional<Answers> answers = take(event);
    EXPECT_TRUE(answers) << "this event is unknown";
    Answers lines;
    for (const std::string& one : answers.value_or(Answers{})) lines.push_back("    " + one);
    if (lines.empty()) lines.emplace_back("    nothing");
    return lines;
  });
}

// The names of the texts in a folder, without ".txt", in order; none if there is no such folder.
inline std::vector<std::string> texts_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace paceline::golden

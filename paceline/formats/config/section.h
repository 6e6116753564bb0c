// Reads one table of a TOML file key by key and remembers which keys it was asked for, so that a wrong type,
// a value out of range and a misspelt key each get one line that names the file, the key and the fix.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <toml++/toml.h>

namespace paceline::config {

// The first mistake in a file; later ones are ignored. One thread.
class Complaints {
 public:
  // `sets`: settings "key=value" that were laid over the file; they are in no line of it. An error in a
  // user's setting names --set, and not the file.
  explicit Complaints(std::string file, std::vector<std::string> sets = {}, bool of_user = true)
      : file_(std::move(file)), sets_(std::move(sets)), of_user_(of_user) {}
  // `node`: the place of the value, for the line number; may be null.
  void add(const toml::node* node, const std::string& key, const std::string& what);
  // A key that the section does not know. `known`: the keys that it knows.
  void add_unknown(const toml::node* node, const std::string& section, const std::string& name,
                   const std::set<std::string>& known);
  // Looks for an unknown key below a table that is a key of the top, written after that table's head. Call
  // this when all keys of the top are `known`.
  void look_above(const toml::table& root, const std::set<std::string>& known);
  const absl::Status& status() const { return status_; }
  // `key`: "optimizer.lr". Each key that a section asked for is a key of the file.
  void ask_for(const std::string& key) { asked_for_.insert(key); }
  bool is_key(const std::string& key) const { return asked_for_.contains(key); }
  // The origin of the key's value, with the key: the beginning of each error line.
  std::string place_of(const toml::node* node, const std::string& key) const;

 private:
  struct Below {
    std::string section, name, place;
  };

  const std::string* set_of(const std::string& key) const;
  const std::string* set_below(const std::string& key) const;

  std::string file_;
  std::vector<std::string> sets_;
  bool of_user_;
  std::set<std::string> asked_for_;
  absl::Status status_;
  std::optional<Below> below_;  // for the error in `status_`
};

class Section {
 public:
  // `table` may be null: then every key has its default. `path`: "optimizer", or "" for the top of the file.
  Section(const toml::table* table, std::string path, Complaints& complaints)
      : table_(table), path_(std::move(path)), complaints_(complaints) {}

  // The value, or `otherwise` when the key is missing or its value is wrong (which is then complained about).
  std::int64_t integer(const std::string& key, std::int64_t otherwise, std::int64_t least, std::int64_t most);
  // `what`: what the key is, if its name alone might mislead; may be null.
  double number(const std::string& key, double otherwise, double least, double most,
                const char* what = nullptr);
  bool boolean(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  // One of `choices`; the answer is its place in the list.
  std::size_t choice(const std::string& key, std::size_t otherwise, const std::vector<std::string>& choices);
  std::vector<double> numbers(const std::string& key, double least, double most);
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t least, std::int64_t most);
  std::vector<std::string> texts(const std::string& key);
  // A list of texts or of lists of texts, ["a", ["b", "c"]]: each becomes a list, of one or of several.
  std::vector<std::vector<std::string>> groups(const std::string& key);
  // A list of pairs of numbers, [[0, 1], [2.5, 0.1]].
  std::vector<std::pair<double, double>> pairs(const std::string& key, double most_first, double most_second);
  bool has(const std::string& key);
  // Complains if the section has this key.
  void refuse(const std::string& key, const std::string& what);

  // A table below this one; null when missing.
  const toml::table* table(const std::string& key);
  // The tables of an array of tables ([[key]]); none when missing.
  std::vector<const toml::table*> tables(const std::string& key);

  // Complains about the value of `key`.
  void complain(const std::string& key, const std::string& what);
  // Whether the file has no mistake so far, here or elsewhere.
  bool good() const { return complaints_.status().ok(); }
  // Complains about the first key that was not asked for.
  void finish();

 private:
  const toml::node* find(const std::string& key);
  std::string full(const std::string& key) const;

  const toml::table* table_;
  std::string path_;
  Complaints& complaints_;
  std::set<std::string> known_;
};

}  // namespace paceline::config

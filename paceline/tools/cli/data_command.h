// `paceline data SET DIR`: a standard data set in a folder, ready for data.source.
#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>

namespace paceline::cli {

struct DataOptions {
  std::string set;        // digits, mnist, cifar10 or cifar100
  std::string directory;  // made if it is missing
  // The set's file, a folder with its files, or an address. Empty: the address at which it is published.
  std::string from;
};

// Fetches what is not at hand with the program curl, checks every byte, and prints how to use the set. The
// folder gets all of the set's files or none, and no file of another content is replaced. Errors:
// InvalidArgument (no such set, no such file), AlreadyExists (another file has the name), DataLoss (other
// bytes), Unavailable (no network, no curl, full disk), each with what to do.
absl::Status data_command(const DataOptions& options);

// The names of the sets.
std::vector<std::string> data_sets();

}  // namespace paceline::cli

// Lines that people see beside a run. The process that leads the run keeps them, and each host's launcher asks for the
// lines that it does not have yet. If another process leads the run later, that one begins without lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/formats/wire/paceline.pb.h"

namespace paceline::rpc {

class RunNotes {
 public:
  RunNotes();

  void add(std::string line) { lines_.push_back(std::move(line)); }
  // Adds the lines that the caller has not seen to the reply.
  void answer(const wire::StatusRequest& request, wire::StatusReply& reply) const;

 private:
  std::uint64_t process_;  // a random number, by which callers tell one process from the next
  std::vector<std::string> lines_;
};

// The caller's side.
class SeenNotes {
 public:
  void ask(wire::StatusRequest& request) const;
  // Returns the reply's lines, which count as seen from now on.
  std::vector<std::string> take(const wire::StatusReply& reply);

 private:
  std::uint64_t process_ = 0;  // 0: none has answered
  std::int32_t seen_ = 0;
};

}  // namespace paceline::rpc

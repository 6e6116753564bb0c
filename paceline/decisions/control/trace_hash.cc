#include "paceline/decisions/control/trace_hash.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace paceline::control {

namespace {

constexpr std::uint64_t kFact = 1;
constexpr std::uint64_t kOrder = 2;

// The eight bytes (or the fewer that are left) from `at` on as a number, the same on every machine.
std::uint64_t word_at(std::string_view text, std::size_t at) {
  const std::size_t count = std::min<std::size_t>(8, text.size() - at);
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < count; ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(text[at + i])} << (8 * i);
  }
  return word;
}

}  // namespace

void TraceHash::on_fact(const Fact& fact) {
  std::visit(
      [&]<class What>(const What& what) {
        if constexpr (!of_planning<What>()) {
          fold_all(kFact, fact.at, std::uint64_t{fact.what.index()});
          fold(what);
        }
      },
      fact.what);
}

void TraceHash::on_order(Time at, const Order& order) {
  std::visit(
      [&]<class What>(const What& what) {
        if constexpr (!of_planning<What>()) {
          fold_all(kOrder, at, std::uint64_t{order.index()});
          fold(what);
        }
      },
      order);
}

std::string TraceHash::hex() const { return fmt::format("{:016x}", state_); }

// SplitMix64's steps, as far as they are needed: the sum keeps a row of zeros from standing still, the
// product carries every bit upwards and the shift brings the upper ones down again. Each step can be undone,
// so two courses that differ in one word never meet again.
void TraceHash::fold(std::uint64_t word) {
  state_ = ((state_ ^ word) + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  state_ ^= state_ >> 32;
}

void TraceHash::fold(std::string_view text) {
  fold(std::uint64_t{text.size()});
  for (std::size_t at = 0; at < text.size(); at += 8) fold(word_at(text, at));
}

void TraceHash::fold(double number) { fold(std::bit_cast<std::uint64_t>(number)); }

void TraceHash::fold(const Lease& lease) {
  fold_all(std::int64_t{lease.epoch}, lease.begin, lease.end);
  if (lease.scrap() > 0) fold_all(lease.scrap_begin, lease.scrap_end);  // see Release
}

void TraceHash::fold(const ControllerState& state) {
  fold_all(state.version, state.ledger.next, std::uint64_t{state.ledger.open.size()});
  for (const auto& [begin, end] : state.ledger.open) fold_all(begin, end);
  if (state.ledger.end) fold(*state.ledger.end);
  if (state.ledger.least) fold(*state.ledger.least);
  fold(std::uint64_t{state.clocks.size()});
  for (const auto& [name, clock] : state.clocks) fold_all(std::string_view(name), clock);
}

void TraceHash::fold(const ReplicaJoined& fact) {
  fold_all(fact.replica, std::string_view(fact.name), fact.batch);
}

void TraceHash::fold(const ReplicaLeft& fact) {
  fold_all(fact.replica, std::string_view(fact.why));
  if (fact.least_batch) fold(*fact.least_batch);  // see Release
}

void TraceHash::fold(const ReplicaReady& fact) {
  fold_all(fact.replica, fact.clock, fact.base, fact.compute);
  if (fact.weight) fold(*fact.weight);  // see Release
  if (fact.data_end) fold(*fact.data_end);
}

void TraceHash::fold(const CommitMember& member) {
  fold_all(member.replica, member.clock, member.base, member.lease, member.weight, member.share);
}

void TraceHash::fold(const CommitRecord& order) {
  fold_all(order.version, order.samples, order.nominal, order.committed_before, order.learning_rate,
           order.fraction, std::uint64_t{order.keep_for_evaluation}, order.why);
  fold(std::uint64_t{order.members.size()});
  for (const CommitMember& member : order.members) fold(member);
  fold(std::uint64_t{order.checkpoint.has_value()});
  if (order.checkpoint) fold(*order.checkpoint);
  if (order.of_differences) fold(std::uint64_t{1});  // see Release
}

void TraceHash::fold(const Release& order) {
  fold_all(order.replica, order.clock, order.version, order.lease, order.why);
  // Runs in which nobody looks ahead or steps by itself have the hashes they had before there was such a
  // thing.
  if (!order.plain()) fold_all(order.learning_rate, order.staleness, order.fraction, order.steps);
}

void TraceHash::fold(const Discard& order) { fold_all(order.replica, order.clock, order.why); }

}  // namespace paceline::control

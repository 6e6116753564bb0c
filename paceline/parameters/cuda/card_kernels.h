// The kernels of kernels.h on one card: loaded once, found by name, and launched on one stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/cuda/kernels.h"

namespace paceline::cuda {

class CardKernels {
 public:
  // The driver translates the kernels for its card. The stream outlives this. Errors: the driver cannot.
  static absl::StatusOr<CardKernels> load(std::shared_ptr<Card> card, const CardStream& stream);
  CardKernels(CardKernels&& other) noexcept
      : card_(std::move(other.card_)),
        stream_(other.stream_),
        module_(std::exchange(other.module_, nullptr)),
        functions_(std::move(other.functions_)) {}
  CardKernels& operator=(CardKernels&&) = delete;
  ~CardKernels();

  // Has the driver load a kernel's code. That takes memory of the card, and a later launch may find it full. Errors: there
  // is no room; there is no such kernel.
  absl::StatusOr<Function> find(const char* name);
  // Launches a kernel with one argument, on at most so many threads: a kernel goes over its numbers in any grid.
  template <class Argument>
  absl::Status launch(const char* name, std::int64_t threads, Argument argument) {
    const auto blocks = std::clamp<std::int64_t>((threads + kThreads - 1) / kThreads, 1, kMostBlocks);
    return launch_in(name, static_cast<unsigned>(blocks), kThreads, &argument);
  }
  // Launches one block of threads for each piece.
  template <class Argument>
  absl::Status launch_pieces(const char* name, std::int64_t pieces, Argument argument) {
    return launch(name, pieces * kThreads, argument);
  }
  // Launches one thread.
  template <class Argument>
  absl::Status launch_one(const char* name, Argument argument) {
    return launch_in(name, 1, 1, &argument);
  }

 private:
  // More blocks than a card runs at a time gain nothing, because each takes several pieces.
  static constexpr std::int64_t kMostBlocks = 4096;

  CardKernels(std::shared_ptr<Card> card, const CardStream& stream, Module module)
      : card_(std::move(card)), stream_(&stream), module_(module) {}
  absl::Status launch_in(const char* name, unsigned blocks, unsigned threads, void* argument);

  std::shared_ptr<Card> card_;
  const CardStream* stream_;
  Module module_;
  std::map<std::string, Function, std::less<>> functions_;
};

}  // namespace paceline::cuda

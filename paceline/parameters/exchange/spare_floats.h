// Free memory for slices of one size (exchange/slices.h), for any slice that needs it next: a host whose
// gradients came early this time may send a sum the next time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace paceline::exchange {

class SpareFloats {
 public:
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };
  using Floats = std::unique_ptr<float[], Free>;

  // Memory for `floats` floats each; at most `most` are held.
  SpareFloats(std::int64_t floats, int most)
      : floats_(static_cast<std::size_t>(floats)), most_(static_cast<std::size_t>(most)) {}

  // Used memory, or zeros that the system provides page by page as they are written: clearing a large block
  // at once would delay the links. Any thread.
  Floats take() {
    {
      const std::lock_guard lock(mutex_);
      if (!spares_.empty()) {
        Floats floats = std::move(spares_.back());
        spares_.pop_back();
        return floats;
      }
    }
    Floats floats(static_cast<float*>(std::calloc(floats_ + 1, sizeof(float))));
    if (floats == nullptr) throw std::bad_alloc();
    return floats;
  }
  // Any thread.
  void give(Floats floats) {
    const std::lock_guard lock(mutex_);
    if (spares_.size() < most_) spares_.push_back(std::move(floats));
  }

 private:
  const std::size_t floats_;
  const std::size_t most_;
  std::mutex mutex_;  // guards what follows
  std::vector<Floats> spares_;
};

}  // namespace paceline::exchange

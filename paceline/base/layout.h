// How a model lies in flat float32 memory: the tensors in order, each at an offset of its own. Workers,
// servers and checkpoints all read the same layout, so a weight has one address everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/dtype.h"

namespace paceline {

// A parameter gets a gradient and an optimizer step. A statistic (batch-norm running mean or variance) is
// averaged over the members of a commit instead. A constant (a frozen parameter, a buffer of integers) never
// changes: its bytes are opaque, and are only ever copied.
enum class TensorKind { kParameter, kStatistic, kConstant };

struct TensorSpec {
  std::string name;  // the model's own name for it, "layer1.0.conv1.weight"
  TensorKind kind = TensorKind::kParameter;
  std::vector<std::int64_t> shape;  // in elements
  std::int64_t offset = 0;          // in floats from the start of the flat memory
  // In floats: as many as elements; a constant's bytes, the last float filled up with zeros.
  std::int64_t size = 0;
  Dtype dtype = Dtype::kFloat32;  // in the program; in this memory it is a constant's alone

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// Invariant: tensors do not overlap, offsets ascend and are multiples of kAlignment, and the padding
// between them is never read for its value.
class Layout {
 public:
  static constexpr std::int64_t kAlignment = 16;  // floats: one cache line

  void add(std::string name, TensorKind kind, std::vector<std::int64_t> shape, Dtype dtype = Dtype::kFloat32);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  // In floats, padding included.
  std::int64_t size() const { return size_; }

  // Floats [0, narrow()) are those of the narrow tensors, padding included; 0: there are none. Programs write their
  // gradients and read their weights as bfloat16 (parameters/ps/bfloat16.h).
  std::int64_t narrow() const { return narrow_; }
  // The end of the parameters of bfloat16 with which the layout begins: the most that narrow() may be.
  std::int64_t leading_bfloat16() const;
  // Whether narrow tensors may end there: at the end of one of these parameters, padding included, or at 0.
  bool can_be_narrow(std::int64_t end) const;
  // Requires: can_be_narrow().
  void set_narrow(std::int64_t end);

  // Neighbouring tensors of one kind, padding included.
  struct Run {
    TensorKind kind;
    std::int64_t begin;  // floats [begin, end)
    std::int64_t end;
  };
  // The runs cover the layout.
  std::vector<Run> runs() const;
  // Floats that commits change: the runs but those of constants, neighbours together.
  struct Range {
    std::int64_t begin;  // floats [begin, end)
    std::int64_t end;
    friend bool operator==(const Range&, const Range&) = default;
  };
  std::vector<Range> moving() const;

  // The layout of floats [begin, end) of the flat memory, from 0 again. A tensor that lies only partly in it
  // is there as a flat piece: "weight@4096", of shape {elements}, is what follows the first 4096 floats of
  // "weight". Requires: multiples of kAlignment, within the layout.
  Layout part(std::int64_t begin, std::int64_t end) const;

  // Cuts the layout into `count` parts, one per shard, which lie one after the other in the whole.
  // Parts of whole tensors and about equal bytes: fewer parts than asked for if there are fewer tensors.
  std::vector<Layout> split(int count) const;
  // Cuts it into a part for each share, of whole tensors and of about that share of the bytes. Requires: positive shares with the sum 1.
  std::vector<Layout> split(std::span<const double> shares) const;
  // Parts of equal size, to one kAlignment, wherever that cuts: fewer parts when there are fewer cache lines.
  std::vector<Layout> split_evenly(int count) const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  // `ends`: floats up to the end of each part but the last one.
  std::vector<Layout> split_near(std::span<const std::int64_t> ends) const;
  // Takes over what is narrow in the floats of `whole` that begin with `before`.
  void narrow_as(const Layout& whole, std::int64_t before);

  std::vector<TensorSpec> tensors_;
  std::int64_t size_ = 0;
  std::int64_t narrow_ = 0;
};

// The tensor that a name of Layout::part() speaks of, and where in it its piece begins.
struct PieceName {
  std::string tensor;
  std::int64_t begin = 0;  // in floats
  bool whole = true;
};
PieceName piece_named(const std::string& name);

// Copies the bytes of the constants of one flat memory into another of the same layout, and nothing else.
void copy_constants(std::span<const Layout::Run> runs, std::span<const float> from, std::span<float> to);

}  // namespace paceline

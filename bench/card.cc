// The speed of the kernels that step a shard in a card's memory, beside that of a copy by the driver, which
// moves as many bytes as the card's memory can: bench_card [MILLIONS OF PARAMETERS]. It runs on the
// first card of PACELINE_CUDA_DRIVER, or of NVIDIA's driver.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/base/check.h"
#include "paceline/parameters/cuda/card.h"
#include "paceline/parameters/cuda/kernels.h"
#include "paceline/parameters/cuda/pieces.h"

namespace paceline {
namespace {

using cuda::CardMemory;

constexpr unsigned kBlocks = 4096;

class Bench {
 public:
  Bench(std::int64_t floats, bench::Table& table)
      : floats_(floats),
        table_(table),
        card_(first_card()),
        stream_(cuda::CardStream::create(card_).value()) {
    for (CardMemory* memory :
         {&weights_, &next_, &state1_, &state2_, &direction_, &gradients_[0], &gradients_[1]}) {
      *memory = room(bytes());
      PACELINE_CHECK(stream_.clear(memory->address(), bytes()).ok(), "cannot clear {} bytes", bytes());
    }
    const ps::Pass pass{ps::TensorKind::kParameter, 0, 0, floats};
    pieces_ = on_card(cuda::pieces_of({&pass, 1}, 0, floats));
    for (std::int64_t begin = 0; begin < floats; begin += ps::kSquaresBlock)
      ranges_.push_back({begin, std::min(floats, begin + ps::kSquaresBlock)});
    marks_ = room(sizeof(std::uint32_t));
    expect(card_->driver().module_load(&module_, cuda::kernels_ptx()), "cuModuleLoadData");
    copy_ = report(card_->name() + ", copy", 2 * moved_by_one(), [&] {
      PACELINE_CHECK(stream_.copy(next_.address(), weights_.address(), bytes()).ok(), "cannot copy");
    });
  }

  void update(const char* name, ps::OptimizerKind kind, int members, bool look_ahead) {
    ps::OptimizerConfig optimizer;
    optimizer.kind = kind;
    const CardMemory numbers = on_card(std::vector{ps::step_numbers(optimizer, 1e-3, 1, 3)});
    const CardMemory given = on_card(members_of(members));
    const bool two = ps::state_streams(kind) > 1;
    cuda::UpdateArguments arguments;
    arguments.weights = weights_.as<float>();
    arguments.next = next_.as<float>();
    arguments.state1 = state1_.as<float>();
    arguments.state2 = two ? state2_.as<float>() : nullptr;
    arguments.direction = look_ahead ? direction_.as<float>() : nullptr;
    arguments.pieces = pieces_.as<cuda::Piece>();
    arguments.piece_count =
        static_cast<std::int32_t>((floats_ + cuda::kPieceFloats - 1) / cuda::kPieceFloats);
    arguments.members = given.as<cuda::MemberArgument>();
    arguments.member_count = members;
    arguments.numbers = numbers.as<ps::StepNumbers>();
    arguments.marks = marks_.as<std::uint32_t>();
    const cuda::Function kernel = function(cuda::kernels_of(kind).step);
    const double moved = moved_by_one() * (2 + members + (two ? 4 : 2) + (look_ahead ? 1 : 0));
    report(fmt::format("{}, {} members{}", name, members, look_ahead ? ", look-ahead" : ""), moved, [&] {
      launch(kernel, std::min<unsigned>(kBlocks, static_cast<unsigned>(arguments.piece_count)),
             cuda::kThreads, arguments);
    });
  }

  void norm(int members) {
    const std::size_t groups = (ranges_.size() + ps::kSquaresGroup - 1) / ps::kSquaresGroup;
    const CardMemory given = on_card(members_of(members)), blocks = on_card(cuda::blocks_of(ranges_));
    const CardMemory lanes = room(ranges_.size() * ps::kSquaresLanes * sizeof(double));
    const CardMemory squares = room(ranges_.size() * sizeof(double)), sums = room(groups * sizeof(double));
    const CardMemory total = room(sizeof(double)), factor = room(sizeof(float));
    const cuda::SquaresArguments arguments{.members = given.as<cuda::MemberArgument>(),
                                           .blocks = blocks.as<cuda::SquaresBlock>(),
                                           .lanes = lanes.as<double>(),
                                           .squares = squares.as<double>(),
                                           .groups = sums.as<double>(),
                                           .member_count = members,
                                           .block_count = static_cast<std::int32_t>(ranges_.size()),
                                           .group_count = static_cast<std::int32_t>(groups)};
    const cuda::ClipArguments clip{.groups = arguments.groups,
                                   .total = total.as<double>(),
                                   .factor = factor.as<float>(),
                                   .clip = 1,
                                   .group_count = arguments.group_count};
    const auto blocks_for = [](std::size_t threads) {
      return static_cast<unsigned>(std::min<std::size_t>(kBlocks, threads / cuda::kThreads + 1));
    };
    report(fmt::format("norm, {} members", members), moved_by_one() * members, [&] {
      launch(function(cuda::kSquaresLanesKernel), blocks_for(ranges_.size() * ps::kSquaresLanes),
             cuda::kThreads, arguments);
      launch(function(cuda::kSquaresBlocksKernel), blocks_for(ranges_.size()), cuda::kThreads, arguments);
      launch(function(cuda::kSquaresGroupsKernel), blocks_for(groups), cuda::kThreads, arguments);
      launch(function(cuda::kClipFactorKernel), 1, 1, clip);
    });
  }

 private:
  static std::shared_ptr<cuda::Card> first_card() {
    auto driver = cuda::Driver::load(cuda::Driver::library_of_environment());
    PACELINE_CHECK(driver.ok(), "{}", driver.status().ToString());
    const auto cards = cuda::Card::all(**driver);
    PACELINE_CHECK(cards.ok() && !cards->empty(), "the driver has no card");
    auto card = cuda::Card::open(*driver, cards->front());
    PACELINE_CHECK(card.ok(), "{}", card.status().ToString());
    PACELINE_CHECK((*card)->enter().ok(), "cannot enter the card's context");
    return *std::move(card);
  }

  std::size_t bytes() const { return static_cast<std::size_t>(floats_) * sizeof(float); }
  // The bytes of one stream, read or written once.
  double moved_by_one() const { return static_cast<double>(bytes()); }
  CardMemory room(std::size_t bytes) const { return CardMemory::create(card_, bytes).value(); }
  template <class Value>
  CardMemory on_card(const std::vector<Value>& values) const {
    CardMemory memory = room(values.size() * sizeof(Value));
    PACELINE_CHECK(stream_.upload(memory.address(), values.data(), values.size() * sizeof(Value)).ok(),
                   "cannot upload");
    return memory;
  }
  std::vector<cuda::MemberArgument> members_of(int count) const {
    std::vector<cuda::MemberArgument> members;
    for (int i = 0; i < count; ++i)
      members.push_back({gradients_[i % 2].as<float>(), 1.0f / static_cast<float>(count), 0});
    return members;
  }
  void expect(cuda::Result result, const char* call) const {
    const absl::Status status = card_->driver().check(result, call);
    PACELINE_CHECK(status.ok(), "{}", status.ToString());
  }
  cuda::Function function(const char* name) const {
    cuda::Function kernel = nullptr;
    expect(card_->driver().module_function(&kernel, module_, name), name);
    return kernel;
  }
  template <class Argument>
  void launch(cuda::Function kernel, unsigned blocks, unsigned threads, Argument argument) const {
    void* arguments[] = {&argument};
    expect(card_->driver().launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream_.get(), arguments, nullptr),
           "cuLaunchKernel");
  }
  double seconds(const std::function<void()>& work, int times) const {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) work();
    PACELINE_CHECK(stream_.settle().ok(), "the card failed");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
  }
  // The median of several turns of several launches each, so that waiting for the card's answer does not
  // count.
  double report(const std::string& name, double moved, const std::function<void()>& work) {
    seconds(work, 1);
    std::vector<double> turns;
    for (int i = 0; i < 5; ++i) turns.push_back(seconds(work, 20));
    const double median = bench::median(turns);
    const double speed = moved / median / 1e9;
    table_.add(name, {{"ms", median * 1e3}, {"GB/s", speed}, {"of copy", copy_ > 0 ? speed / copy_ : 1}});
    return speed;
  }

  const std::int64_t floats_;
  bench::Table& table_;
  const std::shared_ptr<cuda::Card> card_;
  const cuda::CardStream stream_;
  CardMemory weights_, next_, state1_, state2_, direction_, gradients_[2], pieces_, marks_;
  std::vector<ps::Layout::Range> ranges_;
  cuda::Module module_ = nullptr;
  double copy_ = 0;  // GB/s
};

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  using paceline::ps::OptimizerKind;
  const long millions = argc > 1 ? std::atol(argv[1]) : 85;
  if (millions < 1 || argc > 2) {
    fmt::print(stderr, "usage: bench_card [MILLIONS OF PARAMETERS]\n");
    return 2;
  }
  paceline::bench::Table table;
  paceline::Bench bench(millions * 1'000'000, table);
  for (const int members : {1, 2, 3}) bench.update("AdamW", OptimizerKind::kAdamW, members, false);
  bench.update("AdamW", OptimizerKind::kAdamW, 1, true);
  for (const int members : {1, 2}) bench.update("SGD", OptimizerKind::kSgd, members, false);
  bench.update("Nesterov", OptimizerKind::kNesterov, 1, false);
  bench.update("RMSprop", OptimizerKind::kRmsprop, 1, false);
  bench.update("Lion", OptimizerKind::kLion, 1, false);
  for (const int members : {1, 2}) bench.norm(members);
  table.print(false);
}

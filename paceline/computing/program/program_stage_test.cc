// Two stages of a real program at the other end, which hand a number on and back.
#include "paceline/computing/program/program_stage.h"

#include <array>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::program {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

bool go_on() { return true; }

class TwoStages {
 public:
  explicit TwoStages(const std::string& how = "", int at_pass = 1)
      : engine_(ProgramEngine::start(options(how, at_pass)).value()),
        weights_(ipc::SharedFloats::create("weights", layout().size()).value()),
        gradient_(ipc::SharedFloats::create("gradient", layout().size()).value()) {
    for (auto* floats : {&weights_, &gradient_})
      engine_->share({floats->path(), floats->mapping().data(), floats->mapping().size(), 0, true});
    near_ = engine_->make_stage(0, 1).value();
    far_ = engine_->make_stage(1, 2).value();
  }

  absl::Status start(const std::vector<std::int32_t>& samples, std::int64_t micro_batch) {
    const engine::Batch batch{.samples = samples, .step_seed = 7};
    for (engine::Stage* stage : {near_.get(), far_.get()}) {
      if (const auto prepared = stage->prepare(batch); !prepared.ok()) return prepared;
      const auto started =
          stage->start(engine::tensor_pointers<const float>(layout(), weights_.floats().data()),
                       engine::tensor_pointers(layout(), gradient_.floats().data()),
                       static_cast<std::int64_t>(samples.size()), micro_batch, batch.step_seed, go_on);
      if (!started.ok()) return started;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> forward(std::int64_t micro) {
    if (const auto first = near_->forward(micro, go_on); !first.ok()) return first;
    const auto bytes = near_->send(message_);
    if (!bytes.ok()) return bytes.status();
    EXPECT_EQ(*bytes, 8u);
    EXPECT_TRUE(far_->receive_input(micro, std::span(message_).first(*bytes)).ok());
    return far_->forward_backward(micro, go_on);
  }

  void backward(std::int64_t micro) {
    const std::size_t bytes = far_->send(message_).value();
    EXPECT_TRUE(near_->receive_gradient(micro, std::span(message_).first(bytes)).ok());
    EXPECT_TRUE(near_->backward(micro, go_on).ok());
  }

  std::vector<float> gradient(std::size_t tensor) const {
    const ps::TensorSpec& spec = layout().tensors()[tensor];
    const float* begin = gradient_.floats().data() + spec.offset;
    return {begin, begin + spec.size};
  }
  const ps::Layout& layout() const { return engine_->layout(); }
  ProgramEngine& engine() { return *engine_; }
  engine::Stage& near() { return *near_; }
  engine::Stage& far() { return *far_; }

  static StartOptions options(const std::string& how = "", int at_pass = 1) {
    StartOptions options;
    options.name = "program.py";
    options.process.command = {"python3", "paceline/computing/program/testdata/program.py", how,
                               std::to_string(at_pass)};
    options.start.stages = true;
    options.step_limit_s = how == "hang" ? 0.5 : 0;
    return options;
  }

 private:
  std::unique_ptr<ProgramEngine> engine_;
  ipc::SharedFloats weights_, gradient_;
  std::unique_ptr<engine::Stage> near_, far_;
  std::array<std::byte, 64> message_{};
};

TEST(ProgramStage, WritesItsOwnTensorsAlone) {
  TwoStages bench;
  EXPECT_EQ(bench.engine().units(), 2);
  ASSERT_EQ(bench.near().floats().size(), 2u);
  ASSERT_EQ(bench.far().floats().size(), 1u);
  EXPECT_EQ(bench.far().floats()[0].begin, bench.layout().tensors()[2].offset);
  ASSERT_TRUE(bench.start({2, 4, 9}, 2).ok());
  EXPECT_EQ(bench.near().finish(go_on)->metrics.at("passes"), 0);
  EXPECT_THAT(bench.gradient(0), Each(5));
  EXPECT_THAT(bench.gradient(2), Each(0));
}

TEST(ProgramStage, HandsMessagesOnAndBack) {
  TwoStages bench;
  ASSERT_TRUE(bench.start({2, 4, 9}, 2).ok());
  for (const auto& [micro, loss] : {std::pair<std::int64_t, double>{0, 3}, {1, 9}}) {
    const auto found = bench.forward(micro);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, loss);
    bench.backward(micro);
  }
  ASSERT_TRUE(bench.near().finish(go_on).ok());
  EXPECT_THAT(bench.gradient(0), Each(12));
}

TEST(ProgramStage, ForgetsAnIterationThatIsGivenUp) {
  TwoStages bench;
  ASSERT_TRUE(bench.start({2, 4}, 1).ok());
  EXPECT_TRUE(bench.forward(0).ok());
  const absl::Status given_up = bench.near().forward(1, [] { return false; }).status();
  EXPECT_TRUE(given_up.ok() || absl::IsCancelled(given_up)) << given_up;
  ASSERT_TRUE(bench.start({6, 8}, 2).ok());
  EXPECT_EQ(bench.forward(0).value(), 7);
  bench.backward(0);
  ASSERT_TRUE(bench.near().finish(go_on).ok());
  EXPECT_THAT(bench.gradient(0), Each(7));
}

TEST(ProgramStage, BeginsEarlyWhatIsSaidToComeNext) {
  TwoStages bench;
  ASSERT_TRUE(bench.start({2, 4}, 1).ok());
  EXPECT_EQ(bench.forward(0).value(), 2);
  bench.near().expect_pass(engine::Pass::kForward, 1);
  bench.backward(0);
  EXPECT_EQ(bench.forward(1).value(), 4);
  bench.near().expect_finish();
  bench.backward(1);
  EXPECT_EQ(bench.near().finish(go_on)->metrics.at("passes"), 6);
  EXPECT_THAT(bench.gradient(0), Each(6));
}

TEST(ProgramStage, ThrowsAwayWhatItBeganEarlyInVain) {
  TwoStages bench;
  ASSERT_TRUE(bench.start({2, 4, 9}, 1).ok());
  EXPECT_EQ(bench.forward(0).value(), 2);
  bench.near().expect_pass(engine::Pass::kForward, 1);
  bench.backward(0);
  EXPECT_EQ(bench.forward(2).value(), 9);
  bench.near().expect_finish();
  bench.backward(2);
  ASSERT_TRUE(bench.start({6, 8}, 2).ok());
  EXPECT_EQ(bench.forward(0).value(), 7);
  bench.backward(0);
  EXPECT_EQ(bench.near().finish(go_on)->metrics.at("passes"), 10);
  EXPECT_THAT(bench.gradient(0), Each(7));
}

TEST(ProgramStage, IsGivenUpWhenItsProgramHangs) {
  TwoStages bench("hang", 2);
  // A busy machine may make the program late earlier.
  absl::Status status = bench.start({2, 4}, 2);
  if (status.ok()) status = bench.forward(0).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("program.step_limit_s"));
}

TEST(ProgramStage, RefusesAMessageLargerThanItsMemory) {
  TwoStages bench("large");
  ASSERT_TRUE(bench.start({2, 4}, 2).ok());
  EXPECT_THAT(std::string(bench.forward(0).status().message()), HasSubstr("larger than its memory"));
}

TEST(ProgramStage, NeedsAModelThatCanBeCut) {
  EXPECT_EQ(ProgramEngine::start(TwoStages::options("uncut")).status().message(),
            "program.py: the program's model cannot be cut: its blocks are not to be found; install the same "
            "versions of PyTorch and of its libraries on every host");
  StartOptions evaluator = TwoStages::options("uncut");
  evaluator.start.role = Role::kEvaluator;
  EXPECT_TRUE(ProgramEngine::start(evaluator).ok());
}

TEST(ProgramStage, IsOfUnitsThatThereAre) {
  TwoStages bench;
  EXPECT_FALSE(bench.engine().make_stage(1, 3).ok());
  EXPECT_FALSE(bench.engine().make_stage(1, 1).ok());
}

}  // namespace
}  // namespace paceline::program

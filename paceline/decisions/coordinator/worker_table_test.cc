// Tests which worker has which place, without any process.
#include "paceline/decisions/coordinator/worker_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/decisions/coordinator/reader_slots.h"
#include "paceline/parameters/memory/weight_board.h"

namespace paceline::coordinator {
namespace {

static_assert(kReaderSlots == memory::WeightWriter::kSlots);

JobSettings two_replicas_on_three_hosts() {
  JobSettings job;
  job.hosts = 3;
  job.devices.resize(2);
  for (std::size_t i = 0; i < job.devices.size(); ++i) job.devices[i].name = fmt::format("w{}", i);
  return job;
}

class Workers : public ::testing::Test {
 protected:
  int slot_of_new(std::size_t device, std::size_t number) {
    EXPECT_FALSE(
        workers_.take_place(WorkerPeer(static_cast<std::int64_t>(number)), job_.devices[device].name, {}));
    return reader_slot(*workers_.find(WorkerPeer(static_cast<std::int64_t>(number))));
  }

  const JobSettings job_ = two_replicas_on_three_hosts();
  WorkerTable workers_{job_};
};

TEST_F(Workers, NoTwoReadThroughOneSlotHoweverManyComeAndGo) {
  constexpr int kOtherServers = memory::WeightWriter::kSlots - 3;  // numbers from there on
  const int stays = slot_of_new(0, 0);
  int before = stays;
  for (std::size_t number = 1; number < 5000; ++number) {
    const int slot = slot_of_new(1, number);
    ASSERT_NE(slot, stays) << number;
    ASSERT_NE(slot, before) << number;  // the one before may still hold a version
    ASSERT_GT(slot, kEvaluatorSlot) << number;
    ASSERT_LT(slot, kOtherServers) << number;
    before = slot;
    workers_.remove(WorkerPeer(static_cast<std::int64_t>(number)));
  }
}

TEST_F(Workers, TheFirstOfThoseLeftHasTheLastWeightsIfAnyHas) {
  EXPECT_EQ(workers_.first_left(), std::nullopt);
  slot_of_new(1, 7);
  EXPECT_EQ(workers_.first_left(), WorkerPeer(7));
  slot_of_new(0, 8);
  EXPECT_EQ(workers_.first_left(), WorkerPeer(8)) << "its place comes before that of the other";
  workers_.find(WorkerPeer(7))->joined = true;
  EXPECT_EQ(workers_.first_left(), WorkerPeer(7)) << "the other has no weights at all";
  workers_.find(WorkerPeer(8))->joined = true;
  workers_.find(WorkerPeer(8))->takes_last = true;
  EXPECT_EQ(workers_.first_left(), WorkerPeer(7)) << "the other has weights of a step before";
  workers_.find(WorkerPeer(7))->takes_last = true;
  EXPECT_EQ(workers_.first_left(), WorkerPeer(8));
}

}  // namespace
}  // namespace paceline::coordinator

// Who has which place, without any process.
#include "paceline/rpc/worker_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/rpc/reader_slots.h"
#include "paceline/transport/weight_board.h"

namespace paceline::rpc {
namespace {

// Nobody sends anything here, so the stream is an address alone.
WorkerStream::Pointer stream(std::size_t number) {
  return {WorkerStream::Pointer(), reinterpret_cast<WorkerStream*>(64 * (number + 1))};
}

config::JobConfig two_replicas_on_three_hosts() {
  config::JobConfig job;
  job.hosts = 3;
  job.replicas.resize(2);
  for (std::size_t i = 0; i < job.replicas.size(); ++i) job.replicas[i].name = fmt::format("w{}", i);
  return job;
}

class Workers : public ::testing::Test {
 protected:
  int slot_of_new(std::size_t device, std::size_t number) {
    EXPECT_TRUE(workers_.take_place(stream(number), job_.replicas[device].name).ok());
    return reader_slot(*workers_.find(stream(number)));
  }

  const config::JobConfig job_ = two_replicas_on_three_hosts();
  WorkerTable workers_{job_};
};

TEST_F(Workers, NoTwoReadThroughOneSlotHoweverManyComeAndGo) {
  constexpr int kOtherServers = transport::WeightWriter::kSlots - 3;  // from there on
  const int stays = slot_of_new(0, 0);
  int before = stays;
  for (std::size_t number = 1; number < 5000; ++number) {
    const int slot = slot_of_new(1, number);
    ASSERT_NE(slot, stays) << number;
    ASSERT_NE(slot, before) << number;  // the one before may still hold a version
    ASSERT_GT(slot, kEvaluatorSlot) << number;
    ASSERT_LT(slot, kOtherServers) << number;
    before = slot;
    workers_.remove(stream(number));
  }
}

}  // namespace
}  // namespace paceline::rpc

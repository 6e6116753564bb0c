#include "paceline/processes/rpc/run_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::rpc {
namespace {

using ::testing::ElementsAre, ::testing::IsEmpty;

std::vector<std::string> asked(SeenNotes& seen, const RunNotes& notes) {
  wire::StatusRequest request;
  seen.ask(request);
  wire::StatusReply reply;
  notes.answer(request, reply);
  return seen.take(reply);
}

TEST(RunNotes, EachLineIsSeenOnce) {
  RunNotes notes;
  SeenNotes seen;
  EXPECT_THAT(asked(seen, notes), IsEmpty());
  notes.add("w0 was lost");
  EXPECT_THAT(asked(seen, notes), ElementsAre("w0 was lost"));
  EXPECT_THAT(asked(seen, notes), IsEmpty());
  notes.add("w0 is back");
  EXPECT_THAT(asked(seen, notes), ElementsAre("w0 is back"));
}

TEST(RunNotes, TheFirstLinesOfAnotherProcessAreSeenTooIfItLeadsTheRunLater) {
  RunNotes before, after;
  for (const char* line : {"a", "b", "c"}) before.add(line);
  SeenNotes seen;
  EXPECT_THAT(asked(seen, before), ElementsAre("a", "b", "c"));
  after.add("going on from version 8");
  after.add("host 0 is left out");
  EXPECT_THAT(asked(seen, after), ElementsAre("going on from version 8", "host 0 is left out"));
  EXPECT_THAT(asked(seen, after), IsEmpty());
  after.add("d");
  EXPECT_THAT(asked(seen, after), ElementsAre("d"));
}

TEST(RunNotes, ACallerOfAnotherVersionGetsTheLinesThatItCounts) {
  RunNotes notes;
  for (const char* line : {"a", "b", "c"}) notes.add(line);
  wire::StatusRequest request;
  wire::StatusReply reply;
  request.set_notes_seen(2);
  notes.answer(request, reply);
  EXPECT_THAT(reply.notes(), ElementsAre("c"));
  request.set_notes_seen(-1);
  reply.Clear();
  notes.answer(request, reply);
  EXPECT_EQ(reply.notes_size(), 3);
}

}  // namespace
}  // namespace paceline::rpc

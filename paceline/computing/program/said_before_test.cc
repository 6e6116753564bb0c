// Tests that an answer given before the question counts only for the very same question.
#include "paceline/computing/program/said_before.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include <gtest/gtest.h>

namespace paceline::program {
namespace {

const std::string kAssumed = R"({"protocol":1,"devices":1,"settings":{"batch":32,"epochs":1}})";
const std::string kModel = R"({"type":"model","samples":10,"tensors":[{"name":"w","shape":[2]}]})";

StartMessage start() {
  StartMessage message;
  message.role = Role::kProbe;
  message.settings = {{"batch", 32}, {"epochs", 1}};
  return message;
}

TEST(SaidBefore, IsTheAnswerToTheSameQuestion) {
  const auto model = model_said_before(kAssumed + "\n" + kModel, start());
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->samples, 10);
  EXPECT_EQ(model->text, kModel);
}

TEST(SaidBefore, IsNoAnswerToAnotherOne) {
  StartMessage more_devices = start();
  more_devices.devices = 2;
  EXPECT_FALSE(model_said_before(kAssumed + "\n" + kModel, more_devices));
  StartMessage larger_batch = start();
  larger_batch.settings = {{"batch", 64}, {"epochs", 1}};
  EXPECT_FALSE(model_said_before(kAssumed + "\n" + kModel, larger_batch));
  StartMessage half_an_epoch = start();
  half_an_epoch.settings = {{"batch", 32}, {"epochs", 0.5}};
  EXPECT_FALSE(model_said_before(kAssumed + "\n" + kModel, half_an_epoch));
}

TEST(SaidBefore, IsNothingWhereItIsNoModel) {
  const std::string failed = R"({"type":"error","text":"no","where":"train.py:3"})";
  for (const std::string& said : {std::string(), kAssumed, kModel, kAssumed + "\n", "{}\n" + kModel,
                                  "[]\n" + kModel, "\n" + kModel, kAssumed + "\n" + failed, kAssumed + "\n{",
                                  R"({"newer":1})"
                                  "\n" +
                                      kModel,
                                  std::string(100, '[') + "\n" + kModel}) {
    EXPECT_FALSE(model_said_before(said, start())) << said;
  }
}

TEST(SaidBefore, IsTakenOnce) {
  const int file = memfd_create("said", 0);
  ASSERT_EQ(write(file, "ab\ncd", 5), 5);
  setenv("PACELINE_SAID_FD", std::to_string(file).c_str(), 1);
  EXPECT_EQ(take_said(), "ab\ncd");
  EXPECT_EQ(fcntl(file, F_GETFD), -1);
  EXPECT_EQ(std::getenv("PACELINE_SAID_FD"), nullptr);
  EXPECT_EQ(take_said(), "");
}

TEST(SaidBefore, AVariableThatWasLeftOverHarmsNothing) {
  const int other = eventfd(0, 0);  // a descriptor that is no answer's
  for (const std::string& named : {std::string(), std::string("x"), std::string("-1"), std::string("1"),
                                   std::string("987654"), std::to_string(other)}) {
    setenv("PACELINE_SAID_FD", named.c_str(), 1);
    EXPECT_EQ(take_said(), "") << named;
  }
  EXPECT_NE(fcntl(STDOUT_FILENO, F_GETFD), -1);
  EXPECT_NE(fcntl(other, F_GETFD), -1);
  close(other);
}

}  // namespace
}  // namespace paceline::program

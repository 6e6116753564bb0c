#include "paceline/processes/compute/own_files.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::compute {
namespace {

using ::testing::HasSubstr;

class OwnFiles : public ::testing::Test {
 protected:
  static config::JobConfig job(const std::string& text) { return *config::parse_job(text, "job.toml"); }
  // A job file of this host.
  static std::string file(const std::string& text) {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string path = ::testing::TempDir() + "own_files_" + test->name() + ".toml";
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(OwnFiles, TheDataSetIsTheOneThatThisHostNames) {
  const auto own =
      with_own_files(job("data.source = \"text:/home/other/secret\"\nmodel.name = \"gpt-byte\"\n"),
                     file("data.source = \"text:/mine\"\nmodel.name = \"gpt-byte\"\n"));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->data.source, "text:/mine");
}

TEST_F(OwnFiles, TheFirstWeightsAreTheOnesThatThisHostNames) {
  const auto own = with_own_files(job("model.weights = \"/home/other/secret\"\n"),
                                  file("model.weights = \"/mine.safetensors\"\n"));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->initial_weights, "/mine.safetensors");
}

TEST_F(OwnFiles, AJobThatGoesOnFromACheckpointBeginsWithNoFile) {
  const auto own = with_own_files(job(""), file("model.weights = \"/mine.safetensors\"\n"));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->initial_weights, "");
}

TEST_F(OwnFiles, WeightsThatThisHostDoesNotNameAreRefused) {
  const auto own = with_own_files(job("model.weights = \"/home/other/secret\"\n"), file(""));
  EXPECT_THAT(std::string(own.status().message()), HasSubstr("this file has no model.weights"));
}

TEST_F(OwnFiles, TheProgramIsTheOneThatThisHostNames) {
  const auto own = with_own_files(job("program.run = \"/other.py\"\n"), file("program.run = \"/mine.py\"\n"));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->program->run, "/mine.py");
}

TEST_F(OwnFiles, AProgramThatThisHostDoesNotNameIsRefused) {
  const auto own = with_own_files(job("program.run = \"/other.py\"\n"), file(""));
  EXPECT_THAT(std::string(own.status().message()), HasSubstr("this file has no [program]"));
}

TEST_F(OwnFiles, ABuiltInModelIsRefusedIfThisHostNamesAProgram) {
  const auto own = with_own_files(job(""), file("program.run = \"/mine.py\"\n"));
  EXPECT_THAT(std::string(own.status().message()), HasSubstr("this file has a [program]"));
}

TEST_F(OwnFiles, WithoutAJobFileNothingIsReadOrStarted) {
  EXPECT_TRUE(with_own_files(job(""), "").ok());
  for (const char* const text : {"data.source = \"mnist:/home/other\"\n", "model.weights = \"/home/other\"\n",
                                 "program.run = \"/other.py\"\n"}) {
    const auto own = with_own_files(job(text), "");
    EXPECT_THAT(std::string(own.status().message()), HasSubstr("say --job FILE")) << text;
  }
}

}  // namespace
}  // namespace paceline::compute

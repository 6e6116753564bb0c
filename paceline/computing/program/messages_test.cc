// Tests of what a program may say, and what it may not.
#include "paceline/computing/program/messages.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/program_version.h"
#include "paceline/computing/program/memories.h"
#include "paceline/computing/program/step_page.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::program {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string model_of(const std::string& tensors, const std::string& more = R"(,"samples":10)") {
  return R"({"type":"model","tensors":)" + tensors + more + "}";
}

using Cases = std::vector<std::pair<std::string, std::string>>;

// Each answer is refused with one line that has these words.
void expect_refusals(const Cases& cases) {
  for (const auto& [line, says] : cases) {
    const absl::Status status = parse_answer(line).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says)) << line;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << line;
  }
}

TEST(Answers, ThatCannotBeAreOneLine) {
  const std::string w = R"([{"name":"w","shape":[2]}])";
  expect_refusals({
      {"", "not a message"},
      {"[]", "not a JSON object"},
      {"{}", "unknown type ''"},
      {R"({"type":7})", "unknown type"},
      {R"({"type":"x\ny"})", "unknown type"},
      {R"({"type":"stepped"})", "without a loss"},
      {R"({"type":"stepped","loss":"1"})", "not a number"},
      {R"({"type":"stepped","loss":1,"skipped":1})", "'skipped' that is not true or false"},
      {R"({"type":"stepped","loss":1,"skipped":true,"retry":1})", "'retry' that is not true or false"},
      {R"({"type":"stepped","loss":1,"retry":true})", "'retry' without 'skipped'"},
      {R"({"type":"stepped","loss":1,"finite":null})", "'finite' that is not true or false"},
      {R"({"type":"stepped","loss":1,"weight":-1})", "'weight' that is not a number from 0 up"},
      {R"({"type":"stepped","loss":1,"data_end":0})", "'data_end' that is not a number of samples"},
      {R"({"type":"stepped","loss":1,"data_end":1.5})", "'data_end' that is not a number of samples"},
      {R"({"type":"stepped","loss":1,"lengths":{}})", "'lengths' that are not a list"},
      {R"({"type":"stepped","loss":1,"lengths":[[0,1]]})",
       "'lengths' that are not [shard, records, name] each"},
      {R"({"type":"stepped","loss":1,"lengths":[[-1,1,"a"]]})", "'lengths' that are not [shard"},
      {R"({"type":"stepped","loss":1,"lengths":[[0,-1,"a"]]})", "'lengths' that are not [shard"},
      {R"({"type":"stepped","loss":1,"lengths":[[0,1.5,"a"]]})", "'lengths' that are not [shard"},
      {R"({"type":"finished","lengths":[[2147483648,1,"a"]]})", "'lengths' that are not [shard"},
      {R"({"type":"stepped","loss":1,"weight":"1"})", "'weight' that is not a number from 0 up"},
      {R"({"type":"stepped","loss":1,"metrics":[1]})", "not an object"},
      {R"({"type":"stepped","loss":1,"metrics":{"a":"b"}})", "'a', which is not a number"},
      {R"({"type":"stepped","loss":1,"metrics":{"":1}})", "0 bytes"},
      {R"({"type":"passed"})", "without the bytes"},
      {R"({"type":"passed","bytes":-1})", "without the bytes"},
      {R"({"type":"passed","bytes":8,"loss":"1"})", "not a number"},
      {R"({"type":"finished","metrics":[1]})", "not an object"},
      {R"({"type":"finished","weight":-1,"loss":1})", "'weight' that is not a number from 0 up"},
      {R"({"type":"evaluated","metrics":{"accuracy":1.5}})", "share"},
      {R"({"type":"evaluated","metrics":{}})", "no number"},
      {R"({"type":"evaluated"})", "no number"},
      {model_of("[]"), "without tensors"},
      {model_of(R"([{"shape":[2]}])"), "without a name"},
      {model_of(R"([{"name":"","shape":[2]}])"), "name '' has 0 bytes; 1 to"},
      {model_of(R"([{"name":"a\nb","shape":[2]}])"), "has characters that cannot be printed"},
      {model_of(R"([{"name":")" + std::string(5000, 'x') + R"(","shape":[2]}])"), "has 5000 bytes; 1 to"},
      {R"({"type":"stepped","loss":1,"metrics":{")" + std::string(101, 'm') + R"(":1}})",
       "a metric whose name 'mmm"},
      {R"({"type":"stepped","loss":1,"later":{"metrics":{"":1}}})", "a metric whose name '' has 0 bytes"},
      {model_of(R"([{"name":"w"}])"), "without a shape"},
      {model_of(R"([{"name":"w","shape":[0]}])"), "cannot be"},
      {model_of(R"([{"name":"w","shape":[-1]}])"), "cannot be"},
      {model_of(R"([{"name":"w","shape":[1000000000,1000000000]}])"), "cannot be"},
      {model_of(R"([{"name":"w","shape":[2],"kind":"other"}])"), "unknown kind 'other'"},
      {model_of(R"([{"name":"w","shape":[2],"kind":"statistic"}])"), "without a parameter"},
      {model_of(w, ""), "how many samples"},
      {model_of(w, R"(,"samples":0)"), "how many samples"},
      {model_of(w, R"(,"samples":3000000000)"), "how many samples"},
      {model_of(w, R"(,"samples":1,"optimizer":3)"), "not an object"},
      {model_of(w, R"(,"samples":1,"optimizer":{"a=b":3})"), "key"},
      {model_of(w, R"(,"samples":1,"aliases":["x"])"), "'aliases' with one that is not [name, tensor]"},
      {model_of(w, R"(,"samples":1,"trained_names":3)"), "'trained_names' that are not a list"},
      {model_of(w, R"(,"samples":1,"frozen":{})"), "'frozen' that is not a list"},
      {model_of(w, R"(,"samples":1,"frozen":[{"name":"w","shape":[2]}])"), "'w' twice"},
      {model_of(w, R"(,"samples":1,"frozen":[{"name":"f"}])"), "without a shape"},
      {model_of(w, R"(,"samples":1,"frozen":[{"name":"f","shape":[2],"digest":3}])"),
       "digest that is not a text"},
      {model_of(w, R"(,"samples":1,"frozen":[{"name":"f","shape":[2],"dtype":"int3"}])"), "unknown dtype"},
  });
}

TEST(Answers, WithUnitsThatCannotBeAreOneLine) {
  const std::string w = R"([{"name":"w","shape":[2]}])";
  expect_refusals({
      {model_of(w, R"(,"samples":1,"units":{})"), "not a list of 1 to"},
      {model_of(w, R"(,"samples":1,"units":[1])"), "unit that is not an object"},
      {model_of(w, R"(,"samples":1,"units":[{"name":"a"}])"), "without tensors"},
      {model_of(w, R"(,"samples":1,"units":[{"tensors":[1]}])"), "out of order"},
      {model_of(w, R"(,"samples":1,"units":[{"tensors":[0]},{"tensors":[0]}])"), "'w' into 2 units"},
      {model_of(w, R"(,"samples":1,"units":[{"tensors":[]}])"), "'w' into 0 units"},
      {model_of(w, R"(,"samples":1,"units":[{"tensors":[0],"kept_bytes":-1}])"), "kept_bytes cannot be"},
      {model_of(w, R"(,"samples":1,"units":[{"tensors":[0],"flops":-1}])"), "flops cannot be"},
  });
}

TEST(Answers, FrozenTensorsAreNoPartOfTheLayout) {
  const auto answer = parse_answer(model_of(R"([{"name":"w","shape":[2]}])", R"(,"samples":1,"frozen":[
      {"name":"base","shape":[3,4],"dtype":"bfloat16","digest":"0a"}, {"name":"ids","shape":[],"dtype":"int64"}],
      "trained_names":[["lora.w","w"]],"adapter_config":{"r":4})"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Model& model = std::get<Model>(*answer);
  EXPECT_EQ(model.layout.tensors().size(), 1);
  ASSERT_EQ(model.frozen.size(), 2);
  EXPECT_EQ(model.frozen[0].name, "base");
  EXPECT_EQ(model.frozen[0].shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(model.frozen[0].dtype, ps::Dtype::kBfloat16);
  EXPECT_EQ(model.frozen[0].digest, "0a");
  EXPECT_EQ(model.frozen[1].digest, "");
  EXPECT_EQ(model.trained_names.front(), (std::pair<std::string, std::string>{"lora.w", "w"}));
  EXPECT_THAT(model.adapter_config, HasSubstr("\"r\": 4"));
}

TEST(Start, SaysWhereFrozenTensorsAreFromAndKept) {
  StartMessage start;
  EXPECT_THAT(line_of(start), testing::Not(HasSubstr("frozen")));
  EXPECT_THAT(line_of(start), testing::Not(HasSubstr("initial_weights")));
  start.initial_weights = "/a.safetensors";
  start.run_folder = "/run";
  start.keep_frozen = false;
  EXPECT_THAT(line_of(start), HasSubstr(R"("frozen":{"folder":"/run","keep":false})"));
  EXPECT_THAT(line_of(start), HasSubstr(R"("initial_weights":"/a.safetensors")"));
}

TEST(Start, SaysWhatAProbeIsToMeasure) {
  StartMessage start;
  EXPECT_THAT(line_of(start), Not(HasSubstr("profile")));
  start.profile = 8;
  EXPECT_THAT(line_of(start), HasSubstr(R"("profile":8)"));
}

TEST(Start, SaysTheRunAndTheFolderOfTheHostIfTheyAreKnown) {
  StartMessage start;
  EXPECT_THAT(line_of(start), testing::Not(HasSubstr("run")));
  start.run = "job-7";
  EXPECT_THAT(line_of(start), HasSubstr(R"("run":"job-7")"));
  EXPECT_THAT(line_of(start), testing::Not(HasSubstr("host_folder")));
  start.host_folder = "/run-host1";
  EXPECT_THAT(line_of(start), HasSubstr(R"("host_folder":"/run-host1")"));
}

// A model that has just diverged is one whose evaluations people want to see.
TEST(Answers, AnEvaluationWithoutAFiniteNumberIsOne) {
  const auto answer = parse_answer(R"({"type":"evaluated","metrics":{"loss":null,"f1":null}})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const engine::Evaluation& result = std::get<Evaluated>(*answer).result;
  EXPECT_TRUE(std::isnan(result.loss));
  EXPECT_TRUE(std::isnan(result.accuracy));
  EXPECT_TRUE(result.metrics.empty());
}

TEST(Answers, AStepIsTriedAgainOnlyWhereItSaysSo) {
  const auto result = [](const std::string& more) {
    const auto answer = parse_answer(R"({"type":"stepped","loss":null)" + more + "}");
    return std::get<Stepped>(answer.value()).result;
  };
  EXPECT_FALSE(result(R"(,"skipped":true)").retry);
  EXPECT_TRUE(result(R"(,"skipped":true,"retry":true)").retry);
}

TEST(Answers, PlacesOnAPageAreFromOneToItsLast) {
  const auto later = [](const std::string& text) {
    return parse_answer(R"({"type":"stepped","metrics":{"f1":0.5},"later":)" + text + "}");
  };
  const auto answer = later(R"({"loss":1,"metrics":{"accuracy":31}})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto& stepped = std::get<Stepped>(*answer);
  ASSERT_TRUE(stepped.later.has_value());
  EXPECT_EQ(stepped.later->loss, 1);
  EXPECT_EQ(stepped.later->metrics, (std::map<std::string, int>{{"accuracy", 31}}));
  EXPECT_EQ(stepped.result.metrics, (Metrics{{"f1", 0.5}}));
  for (const char* wrong :
       {"1", R"({"loss":0})", R"({"loss":32})", R"({"loss":1.5})", R"({"loss":-1})", R"({"loss":1e30})",
        R"({"loss":1,"metrics":[]})", R"({"loss":1,"metrics":{"":1}})"})
    EXPECT_FALSE(later(wrong).ok()) << wrong;
  EXPECT_FALSE(later("{}").ok()) << "a loss is nowhere";
}

TEST(Steps, HaveThePageAndTheMemoriesThatMayHaveTheirWeights) {
  const engine::Batch batch{.samples = {1}};
  const std::vector<PlacedRun> to = {{0, 2, 64}};
  const std::string early = step_line(batch, {}, to, 8, {}, Words{.page = 5, .number = 7, .rows = {3, 4}});
  EXPECT_THAT(early, HasSubstr(R"("page":{"memory":5,"number":7,"rows":[3,4]})"));
  EXPECT_THAT(early, HasSubstr(R"("weights":[])"));
  EXPECT_THAT(step_line(batch, to, to, 8, {}, Words{.page = 5, .number = 7}),
              HasSubstr(R"("page":{"memory":5,"number":7})"));
  EXPECT_THAT(step_line(batch, to, to, 8), Not(HasSubstr("page")));
}

TEST(StepPage, ComparesNumbersAsInACircle) {
  auto page = StepPage::create();
  ASSERT_TRUE(page.ok()) << page.status();
  auto* const done = reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(page->memory().base) + 64);
  *done = 7;
  EXPECT_TRUE(page->done(7));
  EXPECT_TRUE(page->done(6));
  EXPECT_FALSE(page->done(8));
  *done = 0xffffffff;
  EXPECT_FALSE(page->done(0));
  *done = 1;
  EXPECT_TRUE(page->done(0xffffffff));
}

// The lines in docs/program.md: both sides are tested against that page.
TEST(Start, HasEachKeyInItsPlace) {
  StartMessage message;
  message.role = Role::kEvaluator;
  message.name = "w3";
  message.on_host = 1;
  message.devices = 4;
  message.seed = 7;
  message.threads = 2;
  message.weights = "copy";
  message.stages = true;
  message.settings = {{"batch", 16}, {"epochs", 0.5}};
  EXPECT_EQ(line_of(message),
            R"({"devices":4,"name":"w3","on_host":1,"protocol":1,"role":"evaluator","seed":7,)"
            R"("settings":{"batch":16.0,"epochs":0.5},"stages":true,"threads":2,"type":"start","version":")" +
                std::string(kProgramVersion) + "\",\"weights\":\"copy\"}\n");
}

TEST(Start, SaysThatOtherStagesMayCome) {
  StartMessage message;
  message.recuts = true;
  EXPECT_THAT(line_of(message), HasSubstr(R"("recuts":true)"));
  message.card_memory = true;
  EXPECT_THAT(line_of(message), HasSubstr(R"("card_memory":true)"));
}

// So that the job file has them as a person would write them.
TEST(Answers, AModelAsksInToml) {
  const auto answer =
      parse_answer(model_of(R"([{"name":"w","shape":[]}])",
                            R"(,"samples":1,"epochs":2,"optimizer":{"name":"sgd","lr":1e-3,"nesterov":true},)"
                            R"("schedule":{"shape":"table","table":[[0,1],[2.5,0.1]]})"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(
      std::get<Model>(*answer).sets,
      ElementsAre("epochs=2", "optimizer.lr=0.001", "optimizer.name=\"sgd\"", "optimizer.nesterov=true",
                  "schedule.shape=\"table\"", "schedule.table=[[0, 1], [2.5, 0.1]]"));
}

TEST(Answers, AModelsNoteIsOneLine) {
  const auto note_of = [](const std::string& note) {
    const auto answer =
        parse_answer(model_of(R"([{"name":"w","shape":[2]}])", R"(,"samples":10,"note":)" + note));
    return std::get<Model>(answer.value()).note;
  };
  EXPECT_EQ(note_of(R"("train.py:3: the optimizer has a state")"), "train.py:3: the optimizer has a state");
  EXPECT_THAT(note_of(R"("two\nlines")"), Not(HasSubstr("\n")));
  EXPECT_EQ(note_of("7"), "") << "a note is a text";
}

TEST(Answers, AModelSaysTheStepsOfItsOptimizersState) {
  const auto steps_of = [](const std::string& state) {
    return parse_answer(
        model_of(R"([{"name":"w","shape":[2]}])", R"(,"samples":10,"optimizer_state":)" + state));
  };
  EXPECT_EQ(std::get<Model>(steps_of(R"({"steps":7})").value()).first_steps, 7);
  EXPECT_EQ(std::get<Model>(steps_of("null").value()).first_steps, 0);
  for (const char* wrong : {"7", "{}", R"({"steps":0})", R"({"steps":-1})", R"({"steps":"7"})"})
    EXPECT_EQ(steps_of(wrong).status().message(),
              "sent an 'optimizer_state' without the number of its steps, above 0")
        << wrong;
}

TEST(Lines, NameThePlacesOfTheLastWeights) {
  const std::vector<PlacedRun> runs{{0, 4, 64}, {2, 5, 0}};
  EXPECT_EQ(last_line(runs), R"({"type":"last","weights":[[0,4,64],[2,5,0]]})"
                             "\n");
}

TEST(Lines, NameThePlacesOfEachStreamOfAnOptimizersState) {
  const std::vector<std::vector<PlacedRun>> streams{{{0, 4, 64}}, {{0, 4, 128}}};
  EXPECT_EQ(optimizer_state_line(streams), R"({"to":[[[0,4,64]],[[0,4,128]]],"type":"optimizer_state"})"
                                           "\n");
}

TEST(Answers, AModelsDeviceIsOneLine) {
  const auto answer =
      parse_answer(model_of(R"([{"name":"w","shape":[]}])", R"x(,"samples":1,"device":"cuda:0 (a\nb)")x"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(std::get<Model>(*answer).device, AllOf(HasSubstr("cuda:0 (a"), Not(HasSubstr("\n"))));
}

TEST(Answers, AModelSaysTheFreeMemoryOfItsCardsOrNothingThatCounts) {
  const auto said = [](const std::string& each) {
    const auto answer =
        parse_answer(model_of(R"([{"name":"w","shape":[]}])", R"(,"samples":1,"free_memory":)" + each));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return std::get<Model>(*answer).free_memory;
  };
  EXPECT_THAT(said("[25000000000,0]"), ElementsAre(25'000'000'000, 0));
  for (const char* wrong : {"7", "{}", "[]", "[1,-1]", "[1,1.5]", R"([1,"2"])", "[9007199254740993]"})
    EXPECT_THAT(said(wrong), IsEmpty()) << wrong;
}

TEST(Answers, AModelMayHaveAnyNameThatCanBeRead) {
  const std::string name = std::string(400, 'x') + R"(.a\\b\"ö)";  // the name, escaped for JSON
  const std::string group = R"(,"samples":1,"optimizer":{"group":[{"tensors":[")" + name + R"("]}]})";
  const auto answer = parse_answer(model_of(R"([{"name":")" + name + R"(","shape":[]}])", group));
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Model& model = std::get<Model>(*answer);
  toml::table job;
  ASSERT_TRUE(config::lay_over(job, model.sets).ok());
  EXPECT_EQ(job.at_path("optimizer.group[0].tensors[0]").value<std::string>(),
            model.layout.tensors()[0].name);
  EXPECT_EQ(model.layout.tensors()[0].name, std::string(400, 'x') + R"(.a\b"ö)");
}

TEST(Answers, WhatWentWrongIsToldInFull) {
  const std::string text = std::string(900, 'x') + "; do that";
  const auto answer = parse_answer(R"({"type":"error","text":")" + text + R"(","where":"train.py:3"})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(std::get<Failed>(*answer).text, text);
}

TEST(Answers, AStageMaySayThatItHasNoMemory) {
  const auto answer = parse_answer(R"({"type":"out_of_memory","text":"no\nroom","where":"train.py:3"})");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(std::get<OutOfMemory>(*answer).where, "train.py:3");
  EXPECT_THAT(std::get<OutOfMemory>(*answer).text, testing::Not(HasSubstr("\n"))) << "it is one line";
}

TEST(Answers, AnErrorMaySayThatItsBatchHadTooFewSamples) {
  const auto parsed = [](const std::string& more) {
    return parse_answer(R"({"type":"error","text":"no","where":"train.py:3")" + more + "}");
  };
  EXPECT_FALSE(std::get<Failed>(*parsed("")).too_few);
  const auto few = std::get<Failed>(*parsed(R"(,"too_few":{"enough":4,"computed":16})")).too_few;
  ASSERT_TRUE(few);
  EXPECT_EQ(few->enough, 4);
  EXPECT_EQ(few->computed, 16);
  for (const char* wrong : {"3", "{}", "[4,16]", R"({"enough":1,"computed":16})", R"({"enough":4})",
                            R"({"enough":4,"computed":-1})", R"({"enough":4.5,"computed":16})",
                            R"({"enough":1048577,"computed":16})", R"({"enough":"4","computed":16})"}) {
    EXPECT_THAT(std::string(parsed(std::string(",\"too_few\":") + wrong).status().message()),
                HasSubstr("'too_few' without numbers of samples"))
        << wrong;
  }
}

class PlacesTest : public ::testing::Test {
 protected:
  PlacesTest() {
    for (const char* name : {"a", "b", "c"}) layout_.add(name, ps::TensorKind::kParameter, {20});
  }
  void add(std::vector<float>& memory, std::size_t file_offset = 0) {
    memories_.add({"/path", reinterpret_cast<const std::byte*>(memory.data()), memory.size() * sizeof(float),
                   file_offset, false});
  }
  std::optional<std::vector<PlacedRun>> runs(const std::vector<const float*>& pointers) {
    lines_.clear();
    return memories_.runs_of(layout_, pointers, lines_);
  }

  ps::Layout layout_;
  Memories memories_;
  std::string lines_;
};

TEST_F(PlacesTest, AWholeLayoutIsOneRun) {
  std::vector<float> memory(200);
  add(memory, 4096);
  const auto all = engine::tensor_pointers<const float>(layout_, memory.data() + 16);
  EXPECT_THAT(*runs(all), ElementsAre(PlacedRun{0, 0, 4096 + 64}));
  EXPECT_THAT(lines_, HasSubstr(R"("bytes":4896)"));
  EXPECT_THAT(*runs(all), ElementsAre(PlacedRun{0, 0, 4096 + 64}));
  EXPECT_EQ(lines_, "") << "it was said before";
}

// The narrow tensors are half as far apart, and begin a run of their own.
TEST(NarrowPlaces, AreRunsOfTheirOwn) {
  ps::Layout layout;
  for (const char* name : {"a", "b"})
    layout.add(name, ps::TensorKind::kParameter, {20}, ps::Dtype::kBfloat16);
  for (const char* name : {"c", "d"}) layout.add(name, ps::TensorKind::kParameter, {20});
  EXPECT_THAT(layout_line(layout), Not(HasSubstr("narrow")));
  layout.set_narrow(layout.leading_bfloat16());
  EXPECT_THAT(layout_line(layout), HasSubstr(R"("narrow":64)"));
  std::vector<float> memory(200);
  Memories memories;
  memories.add({"/path", reinterpret_cast<const std::byte*>(memory.data()), 800, 0, true});
  std::string lines;
  const auto runs = [&](const std::vector<float*>& pointers) {
    const std::vector<const float*> all(pointers.begin(), pointers.end());
    return *memories.runs_of(layout, all, lines);
  };
  EXPECT_THAT(runs(engine::gradient_pointers(layout, memory.data(), false)),
              ElementsAre(PlacedRun{0, 0, 0}, PlacedRun{2, 0, 256}));
  EXPECT_THAT(runs(engine::gradient_pointers(layout, memory.data(), true)),
              ElementsAre(PlacedRun{0, 0, 0}, PlacedRun{2, 0, 128}));
  EXPECT_THAT(runs(engine::tensor_pointers(layout, memory.data())),
              ElementsAre(PlacedRun{0, 0, 0}, PlacedRun{1, 0, 128}, PlacedRun{2, 0, 256}))
      << "initial weights, which are float32";
}

TEST_F(PlacesTest, TensorsMayLieAnywhere) {
  std::vector<float> one(100), other(100);
  add(one);
  add(other);
  EXPECT_THAT(*runs({one.data(), other.data() + 32, other.data() + 64}),
              ElementsAre(PlacedRun{0, 0, 0}, PlacedRun{1, 1, 128}));
  EXPECT_THAT(*runs({one.data(), one.data() + 40, other.data()}),
              ElementsAre(PlacedRun{0, 0, 0}, PlacedRun{1, 0, 160}, PlacedRun{2, 1, 0}))
      << "not as far apart as in the layout";
}

TEST_F(PlacesTest, WhatIsForgottenIsNoPlace) {
  std::vector<float> memory(200), other(200);
  add(memory);
  add(other);
  const auto all = engine::tensor_pointers<const float>(layout_, memory.data());
  ASSERT_TRUE(runs(all));
  memories_.remove(reinterpret_cast<const std::byte*>(memory.data()));
  EXPECT_FALSE(runs(all));
  ASSERT_TRUE(runs(engine::tensor_pointers<const float>(layout_, other.data())));
  EXPECT_THAT(lines_, HasSubstr(R"("type":"map")"));
  EXPECT_FALSE(runs({nullptr, nullptr, nullptr}));
}

}  // namespace
}  // namespace paceline::program

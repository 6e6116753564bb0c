// `paceline doctor`: of one host, and of the hosts of a job, each in a network of its own.
#include <sys/mount.h>

#include <memory>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/base/testing/namespaces.h"
#include "tests/program.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(Doctor, SaysWhatIsAndWhatIsNot) {
  const TempFolder folder;
  const Ended host = run({"doctor"});
  EXPECT_EQ(host.status, 0) << host.output;
  for (const char* part : {"paceline, paceline-torch", "processors", "shared memory", "open files",
                           "locked memory", "clock", "gRPC", "OpenSSL"})
    EXPECT_NE(host.output.find(part), std::string::npos) << part << host.output;
  write_text(folder / "job.toml", fmt::format("[network]\nlisten = \"0.0.0.0:{}\"\ncerts = \"{}\"\n",
                                              free_port(), (folder / "certs" / "job").string()));
  const Ended bad = run({"doctor", (folder / "job.toml").string()});
  EXPECT_EQ(bad.status, 2) << bad.output;
  EXPECT_NE(bad.output.find("fix: copy the job's token here"), std::string::npos) << bad.output;
  ASSERT_EQ(run({"certs", (folder / "certs").string()}).status, 0);
  const Ended good = run({"doctor", (folder / "job.toml").string(), "--json"});
  EXPECT_EQ(good.status, 0) << good.output;
  EXPECT_NE(good.output.find("paceline://job/worker, good until"), std::string::npos) << good.output;
}

TEST(Doctor, APlaceAmongHostsNeedsAJob) {
  const Ended alone = run({"doctor", "--rank", "1", "--hosts", "2"});
  EXPECT_EQ(alone.status, 2);
  EXPECT_NE(alone.errors.find("write the job file too"), std::string::npos) << alone.errors;
}

TEST(Doctor, ReadsTheDataOfTheJob) {
  const Ended missing = run({"doctor", "--set", "data.source=mnist:/no/such/folder"});
  EXPECT_EQ(missing.status, 2) << missing.output;
  EXPECT_NE(missing.output.find("/no/such/folder"), std::string::npos) << missing.output;
  const TempFolder folder;
  const Ended there = run({"doctor", small_job(folder.path(), "").string()});
  EXPECT_EQ(there.status, 0) << there.output;
  EXPECT_NE(there.output.find("1200 samples and 100 to test with"), std::string::npos) << there.output;
  EXPECT_NE(there.output.find("libtorch         1.13"), std::string::npos) << there.output;
}

// The doctor finds these faults, so that they do not show only in the run.
TEST(Doctor, ChecksTheJobAsATrainingDoes) {
  const TempFolder folder;
  const std::string job = small_job(folder.path(), "").string();
  for (const auto& [set, says] :
       {std::pair{"cluster.servers=64", "the model has too few tensors for 64 servers"},
        std::pair{"model.width=15", "model.heads = 2"},
        std::pair{"model.weights=/no/such", "--set model.weights=/no/such: /no/such: no such file"}}) {
    const Ended ended = run({"doctor", job, "--set", set});
    EXPECT_EQ(ended.status, 2) << set << ended.output;
    EXPECT_NE((ended.output + ended.errors).find(says), std::string::npos) << ended.output << ended.errors;
  }
}

TEST(Doctor, StartsTheProgramOfTheJob) {
  const TempFolder folder;
  const auto with = [&](const std::string& how) {
    write_text(folder / "job.toml",
               fmt::format("[program]\nrun = \"{}\"\nargs = [\"{}\"]\n",
                           fs::absolute("paceline/computing/program/testdata/program.py").string(), how));
    return run({"doctor", (folder / "job.toml").string()});
  };
  const Ended good = with("");
  EXPECT_EQ(good.status, 0) << good.output;
  EXPECT_NE(good.output.find("program.py starts, and computes on tpu:0\n"), std::string::npos) << good.output;
  EXPECT_NE(good.output.find("1200 samples, 3 tensors of "), std::string::npos) << good.output;
  const Ended bad = with("model-exit");
  EXPECT_EQ(bad.status, 2) << bad.output;
  EXPECT_NE(bad.output.find("program.py: the program ended (exit status 1)"), std::string::npos)
      << bad.output;
  EXPECT_NE(bad.errors.find("no model today"), std::string::npos) << bad.errors;
}

// The second host does not come; the report names the address at which it was expected.
TEST(Doctor, OfHostsIsAtThePortOfTheJob) {
  const TempFolder folder;
  const int port = free_port();
  ASSERT_EQ(run({"certs", (folder / "certs").string()}).status, 0);
  write_text(folder / "job.toml",
             fmt::format("runs_dir = \"{}\"\n[network]\nlisten = \"0.0.0.0:{}\"\ncerts = \"{}\"\n"
                         "[[device]]\ncount = 2\n",
                         (folder / "runs").string(), port, (folder / "certs" / "job").string()));
  Program first({"doctor", (folder / "job.toml").string(), "--hosts", "2", "--rank", "0", "--wait", "1"},
                [] { return setenv("MASTER_ADDR", "127.0.0.1", 1) == 0; });
  const Ended ended = first.wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.output.find(fmt::format("0.0.0.0:{} is free", port)), std::string::npos)
      << ended.output << ended.errors;
}

class DoctorOfHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    auto apart = testing::Namespaces::create(3);
    if (!apart.ok()) GTEST_SKIP() << apart.status().message();
    apart_.emplace(*std::move(apart));
    for (const char* authority : {"certs", "others"})
      ASSERT_EQ(run({"certs", (folder_ / authority).string(), "--job", "small"}).status, 0);
    job_ = small_job(folder_.path(), "");
    write_text(job_, read_text(job_) + fmt::format("[network]\nlisten = \"0.0.0.0:{}\"\ncerts = \"{}\"\n"
                                                   "[[device]]\ncount = 3\n",
                                                   port_, (folder_ / "certs" / "small").string()));
  }

  std::unique_ptr<Program> host(
      int rank, std::vector<std::string> more = {},
      const std::function<bool()>& before = [] { return true; }) const {
    std::vector<std::string> words = {"doctor",  job_.string(), "--rank",        std::to_string(rank),
                                      "--hosts", "3",           "--coordinator", where_};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Program>(words, [=, this] { return apart_->enter(rank) && before(); });
  }

  // Whether the first host's report has a finding about `what` on host `rank` with this health.
  static bool says(const json& report, int rank, const std::string& what, const std::string& health) {
    for (const json& one : report.at("hosts")[static_cast<std::size_t>(rank)].at("findings")) {
      if (one.at("what") == what) return one.at("health") == health;
    }
    return false;
  }

  static json link(const json& report, int a, int b) {
    for (const json& one : report.at("links")) {
      if (one.at("a") == a && one.at("b") == b) return one;
    }
    ADD_FAILURE() << "no link of " << a << " and " << b;
    return {};
  }

  const TempFolder folder_;
  const int port_ = free_port();
  const std::string where_ = fmt::format("{}:{}", testing::Namespaces::address(0), port_);
  std::optional<testing::Namespaces> apart_;
  fs::path job_;
};

TEST_F(DoctorOfHosts, HostsThatAreWell) {
  const auto last = host(2);
  const auto second = host(1);
  const auto first = host(0, {"--json"});
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 0) << ended.output << ended.errors;
  for (Program* other : {second.get(), last.get()}) {
    const Ended end = other->wait();
    EXPECT_EQ(end.status, 0) << end.errors;
  }
  const json report = json::parse(ended.output);
  EXPECT_FALSE(report.at("failed"));
  for (int rank = 0; rank < 3; ++rank) {
    // The hosts share no disk, and need none.
    EXPECT_EQ(says(report, rank, "run folder", "ok"), rank == 0);
    for (const char* what : {"program", "job file", "data set", "libraries", "UCX", "server.crt",
                             "preflight, as server", "preflight, as worker", "shared memory"})
      EXPECT_TRUE(says(report, rank, what, "ok")) << rank << " " << what << ended.output;
    if (rank == 0) continue;
    // The hosts share one machine's clock.
    const json& there = report.at("hosts")[static_cast<std::size_t>(rank)];
    EXPECT_LE(std::abs(there.at("clock_ahead_s").get<double>()),
              there.at("clock_uncertainty_s").get<double>());
  }
  for (const auto& [a, b] : {std::pair(0, 1), {0, 2}, {1, 2}}) {
    for (const char* figure : {"round_trip_us", "to_a_mb_s", "to_b_mb_s"})
      EXPECT_GT(link(report, a, b).at(figure), 0) << ended.output;
  }
  EXPECT_FALSE(fs::exists(folder_ / "runs")) << "what was made to look at is left";
}

// Whatever links go over. One host's are shaped, to so little that those of a busy machine carry more.
TEST_F(DoctorOfHosts, ASlowHostShows) {
  ASSERT_TRUE(apart_->set_bandwidth(2, 20));
  for (const std::vector<std::string>& over : std::vector<std::vector<std::string>>{
           {}, {"--set", "cluster.seal=false", "--set", "cluster.fabric=ucx"}}) {
    const auto last = host(2, over);
    const auto second = host(1, over);
    std::vector<std::string> words = over;
    words.emplace_back("--json");
    const auto first = host(0, words);
    const Ended ended = first->wait();
    EXPECT_EQ(ended.status, 0) << ended.output << ended.errors;
    const json report = json::parse(ended.output);
    const json fast = link(report, 0, 1);
    for (const int a : {0, 1}) {
      for (const char* way : {"to_a_mb_s", "to_b_mb_s"})
        EXPECT_LT(3 * link(report, a, 2).at(way).get<double>(), fast.at(way).get<double>()) << ended.output;
    }
    EXPECT_TRUE(says(report, 2, "links", "warn")) << ended.output;
  }
}

TEST_F(DoctorOfHosts, WhatDiffersIsNamed) {
  const std::string runs = (folder_ / "runs").string();
  fs::create_directory(runs);
  write_text(folder_ / "other.txt", read_text(folder_ / "text.txt") + "and more\n");
  ASSERT_TRUE(apart_->set_unreachable(1, 2));
  const std::string shared = "cluster.shared_folder=true";
  const auto last =
      host(2, {"--set", "data.source=text:" + (folder_ / "other.txt").string(), "--set", shared});
  const auto second = host(1, {"--set", "batch=16", "--set", shared},
                           [&] { return mount("tmpfs", runs.c_str(), "tmpfs", 0, nullptr) == 0; });
  const auto first = host(0, {"--json", "--set", shared});
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 2) << ended.output << ended.errors;
  const json report = json::parse(ended.output);
  EXPECT_TRUE(report.at("failed"));
  EXPECT_NE(ended.output.find("batch = 16, and there 8"), std::string::npos) << ended.output;
  EXPECT_TRUE(says(report, 1, "job file", "fail"));
  EXPECT_TRUE(says(report, 1, "run folder", "fail"));
  EXPECT_TRUE(says(report, 1, "data set", "ok"));
  EXPECT_TRUE(says(report, 2, "job file", "ok"));
  EXPECT_TRUE(says(report, 2, "run folder", "ok"));
  EXPECT_TRUE(says(report, 2, "data set", "fail")) << ended.output;
  EXPECT_TRUE(link(report, 1, 2).contains("error"));
  EXPECT_TRUE(says(report, 2, "link to host 1", "fail"));
  EXPECT_GT(link(report, 0, 2).at("to_a_mb_s"), 0);
  for (Program* other : {second.get(), last.get()}) {
    const Ended end = other->wait();
    EXPECT_EQ(end.status, 2);
    EXPECT_NE(end.errors.find("host 0 has the report"), std::string::npos) << end.errors;
  }
  EXPECT_TRUE(fs::is_empty(runs));
}

TEST_F(DoctorOfHosts, WhoIsNotLetInOrDoesNotComeIsNamed) {
  const auto stranger = host(1, {"--set", "network.certs=" + (folder_ / "others" / "small").string()});
  const auto first = host(0, {"--wait", "15"});
  const Ended refused = stranger->wait();
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.errors.find("certificate"), std::string::npos) << refused.errors;
  EXPECT_NE(refused.output.find("server.crt"), std::string::npos) << refused.output;
  const Ended ended = first->wait();
  EXPECT_EQ(ended.status, 2) << ended.output << ended.errors;
  for (const char* part :
       {"fail  1-2      arrival          did not come within 15 s", "(hosts: 1-2)\n", "refused a connection"})
    EXPECT_NE((ended.output + ended.errors).find(part), std::string::npos)
        << part << ended.output << ended.errors;
}

TEST_F(DoctorOfHosts, AHostThatIsAloneGivesUpWhenItWasToldTo) {
  const Ended alone = host(1, {"--wait", "2"})->wait();
  EXPECT_EQ(alone.status, 2);
  EXPECT_NE(alone.errors.find("waited for 2 s"), std::string::npos) << alone.errors;
}

}  // namespace
}  // namespace paceline::tests

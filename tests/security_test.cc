// The right to take part in a run: certificates, roles, tokens, and bytes that are no call at all. A refused
// process hears why in one line, the coordinator writes one, and the run goes on undisturbed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/single_call.h"
#include "paceline/transport/security/certificate_text.h"
#include "paceline/transport/security/preflight.h"
#include "tests/program.h"
#include "tests/random_message.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

namespace fs = std::filesystem;
using security::Role;

class Security : public testing::Test {
 protected:
  // A run of two workers that goes on until it is stopped, with certificates of its own or none.
  void start(bool tls, const std::string& workers = "[[device]]\ncount = 2\npace_ms = 40\n") {
    std::string network;
    if (tls) {
      ASSERT_EQ(run({"certs", certs_.string(), "--job", "ours"}).status, 0);
      ASSERT_EQ(run({"certs", certs_.string(), "--job", "other"}).status, 0);
      ASSERT_EQ(run({"certs", (folder_ / "strange").string(), "--job", "ours"}).status, 0);
      network = fmt::format("[network]\ncerts = \"{}\"\n", (certs_ / "ours").string());
    }
    const fs::path job = small_job(folder_.path(), "epochs = 200\n");
    write_text(job, read_text(job) + network + workers);
    train_.emplace(std::vector<std::string>{"train", job.string()});
    ASSERT_TRUE(train_->until([&] { return metrics_so_far(folder_ / "runs") >= 1; }));
    address_ = reach_of(process("w0")).at(1);
    run_ = only_run(folder_ / "runs");
    token_ = tls ? certs_ / "ours" / "token" : run_ / "token";
  }

  // A run may train before its evaluator, or one of its workers, is there.
  pid_t process(const std::string& name) {
    std::vector<pid_t> found;
    EXPECT_TRUE(train_->until([&] { return !(found = children(train_->pid(), name)).empty(); })) << name;
    return found.at(0);
  }

  static void write_token(const fs::path& file, const std::string& token) {
    write_text(file, token);
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  }

  // The certificates of the job on disk end at that time, seconds from now.
  void let_end_in(int seconds) const {
    const security::Key authority = security::key_of(read_text(certs_ / "authority.key"));
    for (const Role role : security::kRoles) {
      const fs::path file = certs_ / "ours" / fmt::format("{}.crt", to_string(role));
      const security::Certificate one = security::certificate_of(read_text(file));
      X509_gmtime_adj(X509_getm_notBefore(one.get()), -3600);
      X509_gmtime_adj(X509_getm_notAfter(one.get()), seconds);
      ASSERT_GT(X509_sign(one.get(), authority.get(), EVP_sha256()), 0);
      write_text(file, security::to_pem(one.get()));
    }
  }

  std::int64_t lines_of_coordinator() const {
    const std::string log = read_text(run_ / "logs" / "coordinator.log");
    return std::count(log.begin(), log.end(), '\n');
  }

  int times_said(const std::string& words) const {
    const std::string log = read_text(run_ / "logs" / "coordinator.log");
    int times = 0;
    for (std::size_t at = 0; (at = log.find(words, at)) != std::string::npos; ++at) ++times;
    return times;
  }

  // A worker that must not come in: one line there, and `lines` with `here` in the coordinator's log.
  void expect_refused(std::vector<std::string> more, const std::string& there, const std::string& here,
                      int lines = 1) {
    SCOPED_TRACE(there);
    const std::int64_t before = lines_of_coordinator();
    const int said = here.empty() ? 0 : times_said(here);
    more.insert(more.begin(), {"worker", "--name", "w0", "--coordinator", address_});
    const Ended ended = Program(more).wait();
    EXPECT_EQ(ended.status, 2);
    const std::size_t line = ended.errors.find("paceline: ");  // its log is before it
    ASSERT_NE(line, std::string::npos) << ended.errors;
    EXPECT_EQ(ended.errors.find('\n', line), ended.errors.size() - 1) << ended.errors;
    EXPECT_NE(ended.errors.find(there), std::string::npos) << ended.errors;
    if (here.empty()) {
      EXPECT_EQ(lines_of_coordinator(), before);
      return;
    }
    EXPECT_TRUE(train_->until([&] { return times_said(here) >= said + lines; }));
    EXPECT_EQ(times_said(here), said + lines) << read_text(run_ / "logs" / "coordinator.log");
  }

  // How a call of a process that shows this ends.
  grpc::Status work_as(const rpc::Access& access, const std::string& name) {
    const auto stub = wire::Coordinator::NewStub(rpc::channel_to(address_, access));
    grpc::ClientContext context;
    rpc::introduce(context, access);
    const auto stream = stub->Work(&context);
    wire::WorkerMessage hello;
    hello.mutable_hello()->set_name(name);
    stream->Write(hello);
    wire::WorkerOrder order;
    while (stream->Read(&order)) {
    }
    return stream->Finish();
  }

  // The same, at the place where gRPC hears it.
  void send_raw_inside(const std::string& bytes) {
    auto connection =
        security::connect_with_token(address_, read_text(token_).substr(0, 64), std::chrono::seconds(5));
    ASSERT_TRUE(connection.ok()) << connection.status();
    send(connection->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    wait_for_close(connection->get());
  }

  static void wait_for_close(int connection) {
    const timeval limit{.tv_sec = 2, .tv_usec = 0};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char answer[4096];
    while (recv(connection, answer, sizeof answer, 0) > 0) {
    }
  }

  // Sends it and waits until the other side closes.
  void send_raw(const std::string& bytes) {
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{
        .sin_family = AF_INET,
        .sin_port = htons(static_cast<std::uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1)))),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
        .sin_zero = {}};
    ASSERT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    wait_for_close(connection);
    close(connection);
  }

  void expect_unharmed() { expect_goes_on_until_stopped(*train_, folder_ / "runs"); }

  const TempFolder folder_;
  const fs::path certs_ = folder_ / "certs";
  std::optional<Program> train_;
  std::string address_;
  fs::path run_;
  fs::path token_;
};

TEST_F(Security, WithCertificatesOnlyThoseOfTheJobAreLetIn) {
  ASSERT_NO_FATAL_FAILURE(start(true));
  const std::string token = token_.string();
  expect_refused({"--token-file", token}, "--certs DIR", "does not speak TLS");
  expect_refused({"--certs", (certs_ / "other").string(), "--token-file", token}, "is of the job 'ours'",
                 "it wants coordinator.other");
  expect_refused({"--certs", (folder_ / "strange" / "ours").string(), "--token-file", token},
                 "not of this job's authority", "refused a connection");
  // This server knows the coordinator's authority, but its certificate is from another one.
  const fs::path mixed = folder_ / "mixed";
  fs::copy(folder_ / "strange" / "ours", mixed);
  fs::copy_file(certs_ / "ours" / "authority.crt", mixed / "authority.crt",
                fs::copy_options::overwrite_existing);
  expect_refused({"--certs", mixed.string(), "--token-file", token}, "does not take this certificate",
                 "refused a connection", 3);
  write_token(folder_ / "wrong", "0123456789abcdef0123456789abcdef");
  expect_refused({"--certs", (certs_ / "ours").string(), "--token-file", (folder_ / "wrong").string()},
                 "does not show this job's token", "does not show this job's token");
  // The token of a job and the certificate of another one, or of another role.
  rpc::Access access{*security::read_credentials(certs_ / "ours", Role::kServer),
                     read_text(token_).substr(0, 64)};
  EXPECT_EQ(work_as(access, "w0").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(work_as(access, "w0").error_message(),
            "its certificate is of the role server, and this takes worker");
  access.credentials = *security::read_credentials(certs_ / "other", Role::kWorker);
  access.credentials->own.job = "ours";  // so that it talks to this coordinator
  EXPECT_EQ(work_as(access, "w0").error_message(),
            "its certificate is of the job 'other', and this is 'ours'");
  EXPECT_NE(read_text(run_ / "logs" / "coordinator.log").find("of the job 'other'"), std::string::npos);
  const std::string raw(300, 'x');
  send_raw(raw);
  expect_unharmed();
}

TEST_F(Security, WithoutCertificatesTheTokenKeepsOthersOut) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  expect_refused({}, "--token-file FILE", "");
  write_token(folder_ / "wrong", "0123456789abcdef0123456789abcdef");
  expect_refused({"--token-file", (folder_ / "wrong").string()}, "does not have this token",
                 "does not show this job's token");
  expect_refused({"--token-file", token_.string()}, "w0 is here already", "w0 is here already");
  ASSERT_EQ(run({"certs", certs_.string(), "--job", "ours"}).status, 0);
  expect_refused({"--certs", (certs_ / "ours").string()}, "does not speak TLS",
                 "did not begin as a process of this job does");
  expect_unharmed();
}

TEST_F(Security, EveryProcessMayHaveAsManyFilesAsTheSystemAllows) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 512;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  ASSERT_NO_FATAL_FAILURE(start(false));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const char* word : {"coordinator", "server", "w0", "evaluator"}) {
    const auto has_as_many = [&, pid = process(word)] {
      rlimit of_child{};
      return prlimit(pid, RLIMIT_NOFILE, nullptr, &of_child) == 0 && of_child.rlim_cur == before.rlim_max;
    };
    EXPECT_TRUE(train_->until(has_as_many)) << word;
  }
  expect_unharmed();
}

TEST_F(Security, ATokenThatOthersCanReadIsTakenAndSaid) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  fs::permissions(token_, fs::perms::group_read, fs::perm_options::add);
  const Ended ended =
      Program({"worker", "--name", "w0", "--coordinator", address_, "--token-file", token_.string()}).wait();
  EXPECT_NE(ended.errors.find("others on this host can read the job's token"), std::string::npos)
      << ended.errors;
  EXPECT_NE(ended.errors.find("w0 is here already"), std::string::npos) << ended.errors;
  expect_unharmed();
}

// Its connections stay. Who is lost cannot come back, and that is said; with new ones the run goes on.
TEST_F(Security, CertificatesThatEndInMidRunAreSaidAndCanBeRenewed) {
  ASSERT_NO_FATAL_FAILURE(start(true));
  ASSERT_TRUE(train_->until([&] { return has_checkpoint(folder_ / "runs"); }));
  let_end_in(-1);
  const std::int64_t before = newest_metric(folder_ / "runs", "commits");
  EXPECT_TRUE(train_->until([&] { return newest_metric(folder_ / "runs", "commits") > before; }));
  kill(process("server"), SIGKILL);
  const Ended ended = train_->wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.errors.find("has expired on"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("paceline certs"), std::string::npos) << ended.errors;
  fs::remove_all(certs_ / "ours");
  ASSERT_EQ(run({"certs", certs_.string(), "--job", "ours"}).status, 0);
  train_.emplace(std::vector<std::string>{"train", "--resume", run_.string()});
  expect_unharmed();
}

// The maker of the folder knows the token in it, and may have left a pipe in the place of a log.
TEST_F(Security, ARunFolderOfSomebodyElseIsResumedWithANewToken) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  ASSERT_TRUE(train_->until([&] { return has_checkpoint(folder_ / "runs"); }));
  train_->signal(SIGTERM);
  train_->wait();
  const std::string known = read_text(token_);
  fs::remove(run_ / "logs" / "w0.log");
  ASSERT_EQ(mkfifo((run_ / "logs" / "w0.log").c_str(), 0600), 0);
  const Ended piped = Program({"train", "--resume", run_.string()}).wait();
  EXPECT_EQ(piped.status, 2);
  EXPECT_NE(piped.errors.find("w0.log: cannot write: it is no plain file"), std::string::npos)
      << piped.errors;
  fs::remove(run_ / "logs" / "w0.log");
  train_.emplace(std::vector<std::string>{"train", "--resume", run_.string()});
  EXPECT_TRUE(train_->until([&] { return read_text(token_) != known; }));
  expect_unharmed();
}

TEST_F(Security, RefusedCallsAreCountedAndNotAllWrittenDown) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  const std::int64_t before = lines_of_coordinator();
  constexpr int kCalls = 1000;
  const rpc::Access right{std::nullopt, read_text(token_).substr(0, 64)};
  const rpc::Access wrong{std::nullopt, "0123456789abcdef0123456789abcdef"};
  const auto stub = wire::Coordinator::NewStub(rpc::channel_to(address_, right));
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext context;
    rpc::introduce(context, wrong);
    wire::StatusReply reply;
    const grpc::Status asked = rpc::call_once(stub->Status(&context), wire::StatusRequest(), reply);
    EXPECT_EQ(asked.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  EXPECT_TRUE(train_->until(
      [&] {
        return read_text(run_ / "logs" / "coordinator.log").find(" more in the last") != std::string::npos;
      },
      30));
  EXPECT_LT(lines_of_coordinator(), before + kCalls / 5);
  expect_unharmed();
}

TEST_F(Security, BytesThatAreNoCallDoNoHarm) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  Rng rng(1);
  std::string noise(100'000, '\0');
  for (char& byte : noise) byte = static_cast<char>(rng.below(256));
  send_raw(noise);
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  send_raw(preface + noise);
  send_raw_inside(noise);
  send_raw_inside(preface + noise);
  // A frame that says it is 16 MB long.
  send_raw_inside(preface + std::string("\0\0\0\4\0\0\0\0\0", 9) +
                  std::string("\xff\xff\xff\0\0\0\0\0\1", 9) + noise);
  const rpc::Access access{std::nullopt, read_text(token_).substr(0, 64)};
  EXPECT_EQ(work_as(access, std::string(40 << 20, 'w')).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(train_->until([&] {
    return read_text(run_ / "logs" / "coordinator.log").find("without a word that makes sense") !=
           std::string::npos;
  }));
  EXPECT_EQ(work_as(access, "w7\n\x1b[2J").error_code(), grpc::StatusCode::OK) << "refused with a disconnect";
  EXPECT_EQ(read_text(run_ / "logs" / "coordinator.log").find('\x1b'), std::string::npos);
  expect_unharmed();
}

// Streams of messages with anything in them, the same ones each time. What is not sent away at once ends with
// its messages.
template <class In, class Order>
void babble(const auto& open, const In& hello) {
  for (int stream = 0; stream < 40; ++stream) {
    Rng rng(stream);
    grpc::ClientContext context;
    const auto calls = open(context);
    if (stream % 2 == 0) calls->Write(hello);
    for (int i = 0; i < 30; ++i) {
      In message;
      fill_at_random(message, rng);
      if (!calls->Write(message)) break;
    }
    calls->WritesDone();
    Order order;
    while (calls->Read(&order)) {
    }
    calls->Finish();
  }
}

// The messages come from processes that have the job's token, one of them in the place of a worker that has
// died.
TEST_F(Security, MessagesThatMakeNoSenseDoNoHarm) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  const auto log = [&] { return read_text(run_ / "logs" / "coordinator.log"); };
  kill(process("w1"), SIGKILL);
  ASSERT_TRUE(train_->until([&] { return log().find("w1 left: its stream ended") != std::string::npos; }));
  const rpc::Access access{std::nullopt, read_text(token_).substr(0, 64)};
  const auto stub = wire::Coordinator::NewStub(rpc::channel_to(address_, access));
  const auto with = [&](auto call) {
    return [&, call](grpc::ClientContext& context) {
      rpc::introduce(context, access);
      return call(&context);
    };
  };
  wire::WorkerMessage worker;
  worker.mutable_hello()->set_name("w1");
  babble<wire::WorkerMessage, wire::WorkerOrder>(with([&](auto* context) { return stub->Work(context); }),
                                                 worker);
  wire::ServerMessage server;
  server.mutable_hello()->set_shard(0);
  babble<wire::ServerMessage, wire::ServerOrder>(with([&](auto* context) { return stub->Serve(context); }),
                                                 server);
  wire::EvaluatorMessage evaluator;
  evaluator.mutable_hello();
  babble<wire::EvaluatorMessage, wire::EvaluatorOrder>(
      with([&](auto* context) { return stub->Evaluate(context); }), evaluator);
  Rng rng(1);
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    rpc::introduce(context, access);
    wire::StatusRequest request;
    wire::StatusReply reply;
    fill_at_random(request, rng);
    const grpc::Status asked = rpc::call_once(stub->Status(&context), request, reply);
    EXPECT_TRUE(asked.ok()) << asked.error_message();
  }
  EXPECT_NE(log().find("w1 left: joined out of turn"), std::string::npos) << log();
  expect_unharmed();
}

// A process that starts has no socket until it calls another one.
bool has_socket(pid_t pid) {
  std::error_code error;
  for (auto one = fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error);
       !error && one != fs::directory_iterator(); one.increment(error)) {
    if (fs::read_symlink(one->path(), error).string().starts_with("socket:")) return true;
    error.clear();  // closed meanwhile
  }
  return false;
}

// A worker's gradient is committed only once the server has mapped its memory, which outlives the worker. The
// other worker is slow, so that the weights for which this one waits are there while the server stands still.
TEST_F(Security, AWorkerThatDiesWhileItJoinsDoesNotEndTheRun) {
  ASSERT_NO_FATAL_FAILURE(
      start(false, "[sync]\npolicy = \"asp\"\n[[device]]\npace_ms = 1500\n[[device]]\npace_ms = 40\n"));
  constexpr int kRounds = 3, kMostTries = 12;
  // A server that stands still for two seconds is given up, and the run goes back: that is another test.
  constexpr std::chrono::milliseconds kMayStandStill(1500);
  int rounds = 0;
  for (int i = 0; i < kMostTries && rounds < kRounds; ++i) {
    SCOPED_TRACE(i);
    const std::vector<std::string> words = worker_beside(process("w0"), "w1");
    if (i == 0) kill(process("w1"), SIGKILL);
    // The place is taken until w1 has left.
    ASSERT_TRUE(train_->until([&] { return times_said("w1 left") > i; }));
    const Program late(words);
    ASSERT_TRUE(eventually([&] { return has_socket(late.pid()); })) << "it has not called";
    const std::string maps = fmt::format("/proc/{}/maps", late.pid());
    const auto has_joined = [&] { return read_text(maps).find("paceline-weights") != std::string::npos; };
    const pid_t server = process("server");
    const auto since = std::chrono::steady_clock::now();
    const auto too_late = [&] { return std::chrono::steady_clock::now() - since > kMayStandStill; };
    kill(server, SIGSTOP);
    ASSERT_TRUE(eventually([&] { return has_joined() || too_late(); }));
    const bool in_time = !too_late();
    if (in_time) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time for an iteration
    } else {
      kill(server, SIGCONT);
      ASSERT_TRUE(eventually(has_joined)) << "it has not joined";
    }
    late.signal(SIGKILL);
    kill(server, SIGCONT);
    // Else it stood still for too long after all, and another server has its place.
    rounds += in_time && process("server") == server;
  }
  expect_unharmed();
  if (rounds < kRounds) GTEST_SKIP() << "a worker takes too long to join on this machine";
}

TEST(Certs, AreMadeOnceInOneCommand) {
  const TempFolder folder;
  const std::string dir = (folder / "certs").string();
  const Ended made = run({"certs", dir, "--job", "mnist", "--days", "30"});
  EXPECT_EQ(made.status, 0) << made.errors;
  for (const char* part :
       {"new authority", "authority.key", "good until 20", "each host      gets all of", "[network]"})
    EXPECT_NE(made.output.find(part), std::string::npos) << made.output;
  const std::string key = read_text(folder / "certs" / "authority.key");
  const Ended again = run({"certs", dir, "--job", "mnist"});
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.errors.find("--force"), std::string::npos) << again.errors;
  EXPECT_EQ(read_text(folder / "certs" / "authority.key"), key);
  EXPECT_EQ(run({"certs", dir, "--job", "mnist", "--force"}).status, 0);
  EXPECT_NE(read_text(folder / "certs" / "authority.key"), key);
  const Ended bad = run({"certs", dir, "--job", "../mnist"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.errors.find("letters, digits"), std::string::npos) << bad.errors;
}

}  // namespace
}  // namespace paceline::tests

// The hostile device keeps its promise: it has the CPU's bits, no operation touches what it does not
// declare, and every fault that the device is there to find is found, by name, and none without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/cpu/cpu_backend.hpp"
#include "tests/parity/hostile/hostile_backend.hpp"
#include "tests/parity/op_table.hpp"

namespace gpunode::hostile {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<HostileBackend> open(const Options& options = {}) {
  auto backend = open_backend(options);
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

class EveryOperation : public ::testing::TestWithParam<Guard> {};

TEST_P(EveryOperation, HasTheBitsOfTheCpuAndTouchesWhatItDeclares) {
  auto host = cpu::open_backend();
  auto backend = open({.guard = GetParam()});
  for (const parity::Case& one : parity::cases()) {
    auto expected = parity::run_case(one, *host);
    auto outputs = parity::run_case(one, *backend);
    ASSERT_TRUE(expected);
    ASSERT_TRUE(outputs) << one.name << ": " << outputs.error().message();
    EXPECT_TRUE(parity::same_bits(*expected, *outputs)) << one.name;
  }
  EXPECT_EQ(backend->report().first_error, "");
  EXPECT_GE(backend->report().operations, parity::cases().size());
}

INSTANTIATE_TEST_SUITE_P(Guards, EveryOperation,
                         ::testing::Values(Guard::none, Guard::behind, Guard::before),
                         [](const auto& info) {
                           return info.param == Guard::none     ? "InPlace"
                                  : info.param == Guard::behind ? "GuardedBehind"
                                                                : "GuardedBefore";
                         });

TEST(HostileDeviceDeathTest, TheHostDiesOfADevicesAddress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto backend = open();
        auto piece = backend->memory()->allocate(64);
        *static_cast<volatile float*>(*piece) = 1;
      },
      "the host touched the device's memory");
}

TEST(HostileDevice, HasNotCopiedBeforeSomebodyWaits) {
  auto backend = open({.pace = Pace::when_waited_for});
  auto stream = *backend->open_stream();
  const std::vector<float> up(16, 2.0f);
  std::vector<float> down(16, 1.0f);
  void* piece = *backend->memory()->allocate(64);
  ASSERT_TRUE(backend->upload(*stream, std::as_bytes(std::span(up)), piece));
  ASSERT_TRUE(backend->download(*stream, piece, std::as_writable_bytes(std::span(down))));
  EXPECT_NE(down, up);
  EXPECT_TRUE(std::isnan(down[0]));
  ASSERT_TRUE(stream->synchronise());
  EXPECT_EQ(down, up);
  EXPECT_EQ(backend->report().bytes_up, 64u);
  EXPECT_EQ(backend->report().bytes_down, 64u);
  backend->memory()->release(piece, 64);
  EXPECT_EQ(backend->report().first_error, "");
}

// A small program of two streams with a fault that can be left out.
constexpr std::int64_t kCount = 100;
constexpr std::size_t kBytes = kCount * sizeof(float);

struct Scene {
  std::unique_ptr<HostileBackend> backend;
  std::unique_ptr<tensor::Stream> left, right;
  tensor::BufferPool none{backend->memory(), 0};
  tensor::Workspace workspace{none};
  std::vector<void*> pieces = {};
  std::vector<float> host = std::vector<float>(kCount, 1.0f), other = host;

  explicit Scene(const Options& options) : backend(open(options)) {
    left = *backend->open_stream();
    right = *backend->open_stream();
    for (int piece = 0; piece < 3; ++piece) pieces.push_back(*backend->memory()->allocate(kBytes));
    for (void* piece : pieces) note(backend->clear(*left, piece, kBytes));
    note(left->synchronise());
  }
  void note(const Result<void>& done) {
    if (!done && first.empty()) first = done.error().message();
  }
  float* floats(int piece) const {
    return static_cast<float*>(pieces[static_cast<std::size_t>(piece)]);
  }
  MutableByteView bytes(std::vector<float>& values) {
    return std::as_writable_bytes(std::span(values));
  }

  // to = from + from
  void add(tensor::Stream& stream, const float* from, float* to) {
    note(backend->operations().add(
        stream, workspace,
        {.a = {from, {kCount}}, .b = {from, {kCount}}, .c = {}, .out = {to, {kCount}}}));
  }
  void order() {  // what `right` does next comes after what `left` did
    auto event = backend->record(*left);
    ASSERT_TRUE(event);
    note(backend->wait(*right, **event));
  }
  void finish() {
    note(left->synchronise());
    note(right->synchronise());
  }
  std::string first = {};
};

struct Fault {
  const char* name;
  std::vector<std::string> words;  // of the report
  std::function<void(Scene&, bool faulty)> run;
  Options options = {};
};

Options with_add(ops::Operation<ops::AddArgs>* add) {
  Options options{.guard = Guard::behind, .arithmetic = cpu::open_backend()->operations()};
  options.arithmetic->add = add;
  return options;
}

// Adds like the CPU; where the first value says so, does what it should not besides.
template <class Extra>
Result<void> add_and(const ops::AddArgs& args, Extra extra) {
  const bool faulty = args.a.data[0] != 0;
  for (std::int64_t i = 0; i < args.out.element_count(); ++i)
    args.out.data[i] = args.a.data[i] + args.b.data[i];
  if (faulty) extra();
  return {};
}
Result<void> add_reading_beyond(tensor::Stream&, tensor::Workspace&, const ops::AddArgs& args) {
  return add_and(args, [&] { args.out.data[0] += args.a.data[kCount]; });
}
Result<void> add_writing_beyond(tensor::Stream&, tensor::Workspace&, const ops::AddArgs& args) {
  return add_and(args, [&] { args.out.data[kCount] = 1; });
}
Result<void> add_writing_before(tensor::Stream&, tensor::Workspace&, const ops::AddArgs& args) {
  return add_and(args, [&] { args.out.data[-1] = 1; });
}
Result<void> add_writing_input(tensor::Stream&, tensor::Workspace&, const ops::AddArgs& args) {
  return add_and(args, [&] { const_cast<float*>(args.b.data)[1] = 1; });
}
void run_add(Scene& scene, bool faulty) {
  if (faulty)
    scene.note(scene.backend->upload(*scene.left, scene.bytes(scene.host), scene.floats(0)));
  scene.add(*scene.left, scene.floats(0), scene.floats(1));
}

std::vector<Fault> faults_of_order() {
  return {
      {"ReadAfterWrite",
       {"read after write: add #5 on stream 1 reads 'a' (piece 1",
        "add #4 on stream 0, which writes 'out'"},
       [](Scene& scene, bool faulty) {
         scene.add(*scene.left, scene.floats(0), scene.floats(1));
         if (!faulty) scene.order();
         scene.add(*scene.right, scene.floats(1), scene.floats(2));
       }},
      {"WriteAfterRead",
       {"write after read: clear #5 on stream 1 writes 'to' (piece 0",
        "add #4 on stream 0, which reads 'a'"},
       [](Scene& scene, bool faulty) {
         scene.add(*scene.left, scene.floats(0), scene.floats(1));
         if (!faulty) scene.order();
         scene.note(scene.backend->clear(*scene.right, scene.floats(0), kBytes));
       }},
      {"WriteAfterWrite",
       {"write after write: add #5 on stream 1 writes 'out' (piece 1",
        "copy #4 on stream 0, which writes 'to'"},
       [](Scene& scene, bool faulty) {
         scene.note(scene.backend->copy(*scene.left, scene.floats(0), scene.floats(1), kBytes));
         if (!faulty) scene.order();
         scene.add(*scene.right, scene.floats(2), scene.floats(1));
       }},
      {"AnEventThatStandsBeforeTheWrite",
       {"read after write: add #5 on stream 1", "add #4 on stream 0"},
       [](Scene& scene, bool faulty) {
         if (faulty) scene.order();
         scene.add(*scene.left, scene.floats(0), scene.floats(1));
         if (!faulty) scene.order();
         scene.add(*scene.right, scene.floats(1), scene.floats(2));
       }},
      {"DownloadReadTooEarly",
       {"read after write: the host reads 'bytes'", "download #4 on stream 0, which writes 'to'"},
       [](Scene& scene, bool faulty) {
         scene.note(scene.backend->download(*scene.left, scene.floats(0), scene.bytes(scene.host)));
         if (!faulty) scene.note(scene.left->synchronise());
         scene.note(scene.backend->host_reads(scene.bytes(scene.host)));
       }},
      {"DownloadSentOnTooEarly",
       {"read after write: upload #5 on stream 1 reads 'from' (host memory",
        "download #4 on stream 0"},
       [](Scene& scene, bool faulty) {
         scene.note(scene.backend->download(*scene.left, scene.floats(0), scene.bytes(scene.host)));
         if (!faulty) scene.note(scene.left->synchronise());
         scene.note(scene.backend->upload(*scene.right, scene.bytes(scene.host), scene.floats(1)));
       }},
      {"UploadChangedTooEarly",
       {"upload #4 on stream 0: its source, 400 bytes", "changed before the copy had run"},
       [](Scene& scene, bool faulty) {
         scene.note(scene.backend->upload(*scene.left, scene.bytes(scene.host), scene.floats(0)));
         if (!faulty) scene.note(scene.left->synchronise());
         scene.host[7] = 3;
       },
       {.pace = Pace::when_waited_for}},
  };
}

std::vector<Fault> faults_of_memory() {
  return {
      {"HostPointerOfAnOperation",
       {"add #4 on stream 0: its argument 'out' is host memory at"},
       [](Scene& scene, bool faulty) {
         scene.add(*scene.left, scene.floats(0), faulty ? scene.host.data() : scene.floats(1));
       }},
      {"HostPointerOfACopy",
       {"upload #4 on stream 0: its argument 'to' is host memory at"},
       [](Scene& scene, bool faulty) {
         scene.note(scene.backend->upload(*scene.left, scene.bytes(scene.host),
                                          faulty ? scene.other.data() : scene.floats(1)));
       }},
      {"DevicePointerAsTheHosts",
       {"upload: its source is not the host's but piece 1"},
       [](Scene& scene, bool faulty) {
         const ByteView device{static_cast<const std::byte*>(scene.pieces[1]), kBytes};
         scene.note(scene.backend->upload(*scene.left, faulty ? device : scene.bytes(scene.host),
                                          scene.floats(2)));
       }},
      {"BeyondThePiece",
       {"clear #4 on stream 0: its argument 'to' reaches beyond piece 1"},
       [](Scene& scene, bool faulty) {
         scene.note(scene.backend->clear(*scene.left, scene.floats(1), kBytes + (faulty ? 4 : 0)));
       }},
      {"UseAfterRelease",
       {"add #4 on stream 0: its argument 'a' lies in piece 0, which is released"},
       [](Scene& scene, bool faulty) {
         if (faulty) scene.backend->memory()->release(scene.floats(0), kBytes);
         scene.add(*scene.left, scene.floats(0), scene.floats(1));
       }},
      {"ReleaseWhileInUse",
       {"release: piece 0 + 0 may still be in use by add #4 on stream 0, as 'a'"},
       [](Scene& scene, bool faulty) {
         scene.add(*scene.left, scene.floats(0), scene.floats(1));
         if (!faulty) scene.note(scene.left->synchronise());
         scene.backend->memory()->release(scene.floats(0), kBytes);
       }},
      {"ReleasedTwice",
       {"release: piece 2 is released twice"},
       [](Scene& scene, bool faulty) {
         scene.backend->memory()->release(scene.floats(2), kBytes);
         if (faulty) scene.backend->memory()->release(scene.floats(2), kBytes);
       }},
  };
}

std::vector<Fault> faults_of_declaration() {
  return {
      {"UndeclaredRead",
       {"add #5 on stream 0 reads 0 bytes beyond 'a' and 'b'"},
       run_add,
       with_add(add_reading_beyond)},
      {"UndeclaredWriteBeyond",
       {"add #5 on stream 0 writes 0 bytes beyond 'out'"},
       run_add,
       with_add(add_writing_beyond)},
      {"UndeclaredWriteBefore",
       {"add #5 on stream 0 writes byte -4 of 'out', which it does not declare"},
       run_add,
       with_add(add_writing_before)},
      {"UndeclaredWriteOfAnInput",
       {"add #5 on stream 0 writes 'a' and 'b', which it declares to read only"},
       run_add,
       with_add(add_writing_input)},
  };
}

class HostileFault : public ::testing::TestWithParam<Fault> {};

TEST_P(HostileFault, IsFoundAndNamed) {
  Scene scene(GetParam().options);
  GetParam().run(scene, true);
  scene.finish();
  for (const std::string& words : GetParam().words) {
    EXPECT_THAT(scene.backend->report().first_error, HasSubstr(words));
    EXPECT_THAT(scene.first, HasSubstr(words));
  }
}

TEST_P(HostileFault, IsNotFoundWhereItIsNot) {
  Scene scene(GetParam().options);
  GetParam().run(scene, false);
  scene.finish();
  EXPECT_EQ(scene.backend->report().first_error, "");
  EXPECT_EQ(scene.first, "");
}

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Order, HostileFault, ::testing::ValuesIn(faults_of_order()), kName);
INSTANTIATE_TEST_SUITE_P(Memory, HostileFault, ::testing::ValuesIn(faults_of_memory()), kName);
INSTANTIATE_TEST_SUITE_P(Declaration, HostileFault, ::testing::ValuesIn(faults_of_declaration()),
                         kName);

}  // namespace
}  // namespace gpunode::hostile

// States in files, and in the memory of a device.
#include <gtest/gtest.h>
#include <ringway/shared_state.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <ringway/shared_state.hpp>
#include <string>
#include <vector>

#include "tests/client/device_fixture.h"

namespace ringway {
namespace {

namespace fs = std::filesystem;

// Two pieces and a bit.
constexpr std::size_t kSize = (std::size_t{33} << 20) + 7;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

class SharedStateTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    directory_ = fs::temp_directory_path() / ("ringway-state-" + std::to_string(::getpid()));
    fs::create_directories(directory_);
    path_ = directory_ / "state";
  }
  void TearDown() override {
    DeviceTest::TearDown();
    fs::remove_all(directory_);
  }

  Result<SharedState> Make(std::vector<std::uint8_t>* tensor, const std::string& name = "x") const {
    return SharedState::Make({{name, tensor->data(), tensor->size()}}, {.path = path_});
  }
  // The error of reading the file into a tensor of so many bytes, which then is as it was.
  Status Refused(std::size_t bytes = 100, const std::string& name = "x") const {
    std::vector<std::uint8_t> tensor(bytes);
    const auto made = Make(&tensor, name);
    EXPECT_EQ(tensor, std::vector<std::uint8_t>(bytes)) << "it was read";
    return made.status();
  }
  void Save(SharedState* state) const {
    const auto saved = state->Advance(*session_, false);
    ASSERT_TRUE(saved.ok()) << saved.status().text();
  }

  fs::path directory_;
  std::string path_;
};

TEST_F(SharedStateTest, FileIsWrittenAsOftenAsAskedForAndReadAgain) {
  std::vector<std::uint8_t> first(kSize);
  std::iota(first.begin(), first.end(), std::uint8_t{9});
  std::uint64_t second = 5;
  const auto tensors = [](auto* bytes, auto* word) {
    return std::vector<StateTensor>{{"first", bytes->data(), bytes->size()}, {"second", word, sizeof(*word)}, {"none"}};
  };
  auto state = SharedState::Make(tensors(&first, &second), {.revision = 6, .path = path_, .every = 2});
  ASSERT_TRUE(state.ok()) << state.status().text();
  EXPECT_EQ(state->revision(), 6U);
  Save(&*state);
  EXPECT_FALSE(fs::exists(path_));
  Save(&*state);
  std::vector<std::uint8_t> again(kSize);
  std::uint64_t word = 0;
  const auto read = SharedState::Make(tensors(&again, &word), {.path = path_});
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->revision(), 8U);
  EXPECT_TRUE(again == first);
  EXPECT_EQ(word, second);
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

TEST_F(SharedStateTest, FileThatIsNotThisStateWholeIsRefused) {
  std::vector<std::uint8_t> tensor(100, 1);
  auto state = Make(&tensor);
  ASSERT_TRUE(state.ok());
  Save(&*state);
  const std::string whole = Read(path_);
  ASSERT_EQ(whole.size(), 148U);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    Write(path_, flipped);
    const Status error = Refused();
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << at;
    const char* const said = at < 8 ? "not a state file" : at < 16 || at >= 32 ? "damaged" : "another model's";
    EXPECT_NE(error.text().find(said), std::string::npos) << at << ": " << error.text();
  }
  for (const std::string& content : {whole.substr(0, 147), whole + "x", std::string("x"), std::string()}) {
    Write(path_, content);
    EXPECT_EQ(Refused().code(), Code::kInvalidArgument) << content.size();
  }
  Write(path_, whole);
  EXPECT_EQ(Refused(101).code(), Code::kInvalidArgument);
  EXPECT_EQ(Refused(100, "y").code(), Code::kInvalidArgument);
  fs::create_directory(directory_ / "d");
  path_ = directory_ / "d";
  EXPECT_EQ(Refused().code(), Code::kInvalidArgument);
  path_ = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Refused().code(), Code::kInvalidArgument);
}

TEST_F(SharedStateTest, FileOfTensorsOfAnotherDescriptionIsRefusedAndOneWithoutIsRead) {
  std::vector<std::uint8_t> tensor(6, 1);
  const auto make = [&](const std::string& description) {
    return SharedState::Make({{"x", tensor.data(), tensor.size(), description}}, {.path = path_});
  };
  auto state = make("");
  ASSERT_TRUE(state.ok());
  Save(&*state);
  const std::string undescribed = Read(path_);
  auto described = make("bfloat16[3]");
  ASSERT_TRUE(described.ok()) << described.status().text();
  EXPECT_EQ(described->revision(), 1U);
  Save(&*described);
  EXPECT_EQ(make("float16[3]").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(make("").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(make("bfloat16[3]")->revision(), 2U);
  Write(path_, undescribed);
  EXPECT_EQ(make("float16[3]")->revision(), 1U);
}

TEST_F(SharedStateTest, DescriptionInCIsThatInCpp) {
  std::vector<std::uint8_t> tensor(6, 1);
  auto made = SharedState::Make({{"x", tensor.data(), tensor.size(), "bfloat16[3]"}}, {.path = path_});
  ASSERT_TRUE(made.ok());
  Save(&*made);
  const ringwayStateTensor_t tensors[] = {{"x", tensor.data(), tensor.size()}};
  const auto init = [&](const char* description, bool is_of_first_release = false) {
    ringwaySharedStateConfig_t config = RINGWAY_SHARED_STATE_CONFIG_INITIALIZER;
    config.path = path_.c_str();
    config.descriptions = &description;
    if (is_of_first_release) config.size = offsetof(ringwaySharedStateConfig_t, descriptions);
    ringwaySharedState_t state = nullptr;
    const ringwayResult_t result = ringwaySharedStateInit(&state, tensors, 1, &config);
    ringwaySharedStateDestroy(state);
    return result;
  };
  EXPECT_EQ(init("bfloat16[3]"), ringwaySuccess) << ringwayGetLastError(nullptr);
  EXPECT_EQ(init("float16[3]"), ringwayInvalidArgument);
  EXPECT_EQ(init(nullptr), ringwayInvalidArgument);
  EXPECT_EQ(init("bfloat16[3]", true), ringwayInvalidArgument) << "read beyond what the program has";
}

TEST_F(SharedStateTest, RevisionThatLeavesNoRoomForTheNextIsDamage) {
  std::vector<std::uint8_t> tensor(100, 1);
  auto state = SharedState::Make({{"x", tensor.data(), tensor.size()}}, {.revision = UINT64_MAX - 1, .path = path_});
  ASSERT_TRUE(state.ok());
  Save(&*state);
  EXPECT_EQ(Refused().code(), Code::kInvalidArgument);
}

TEST_F(SharedStateTest, WhereNoFileCanBeIsReportedBeforeTheFirstSave) {
  std::uint8_t byte = 0;
  const auto missing = SharedState::Make({{"x", &byte, 1}}, {.path = path_ + "/none/state"});
  EXPECT_EQ(missing.status().code(), Code::kInvalidArgument);
  EXPECT_NE(missing.status().text().find("no directory"), std::string::npos);
  const auto full = SharedState::Make({{"x", &byte, std::size_t{1} << 45}}, {.path = path_});  // is not touched
  EXPECT_EQ(full.status().code(), Code::kResourceExhausted);
  EXPECT_NE(full.status().text().find("make room"), std::string::npos);
}

TEST_F(SharedStateTest, SaveThatFailsIsReportedAndTheTrainingMayGoOn) {
  std::vector<std::uint8_t> tensor(100, 1);
  auto state = Make(&tensor);
  ASSERT_TRUE(state.ok());
  Save(&*state);
  const std::string kept = Read(path_);
  fs::create_directory(path_ + ".new");
  EXPECT_EQ(state->Advance(*session_, false).status().code(), Code::kIo);
  EXPECT_EQ(state->revision(), 2U);
  EXPECT_EQ(Read(path_), kept);
  fs::remove(path_ + ".new");
  Save(&*state);
  EXPECT_EQ(state->revision(), 3U);
  EXPECT_NE(Read(path_), kept);
}

TEST_F(SharedStateTest, LinkInThePlaceOfTheNewFileIsNotFollowed) {
  std::vector<std::uint8_t> tensor(100, 1);
  auto state = Make(&tensor);
  ASSERT_TRUE(state.ok());
  const std::string other = directory_ / "other";
  Write(other, "another's");
  fs::create_symlink(other, path_ + ".new");
  EXPECT_EQ(state->Advance(*session_, false).status().code(), Code::kIo);
  EXPECT_EQ(Read(other), "another's");
}

TEST_F(SharedStateTest, TensorsThatCannotBeOneStateAreRefused) {
  std::uint8_t byte = 0;
  const auto refused = [](std::vector<StateTensor> tensors, const SharedStateOptions& options = {}) {
    return SharedState::Make(std::move(tensors), options).status().code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused({{"x", &byte, 1}, {"x", &byte, 1}}));
  EXPECT_TRUE(refused({{"x", nullptr, 1}}));
  EXPECT_TRUE(refused({{"x", &byte, SIZE_MAX}}));
  EXPECT_TRUE(refused({{"x", &byte, std::size_t{1} << 46}, {"y", &byte, 1}}));
  EXPECT_TRUE(refused({{"x", &byte, 1}}, {.every = 0}));
  EXPECT_TRUE(refused({{"x", &byte, 1, std::string(1025, 'd')}}));
  const auto strategy = static_cast<StateStrategy>(3);
  EXPECT_EQ(SyncState(*session_, {{"x", &byte, 1}}, {.strategy = strategy}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(SyncState(*session_, {{"x", &byte, 1}}, {.revision = UINT64_MAX}).status().code(), Code::kInvalidArgument);
}

TEST_F(SharedStateTest, CRefusesWhatIsNotThere) {
  std::uint64_t word = 3;
  std::uint64_t revision = 4;
  const ringwayStateTensor_t tensor = {"x", &word, sizeof(word)};
  const ringwayStateTensor_t nameless = {nullptr, &word, sizeof(word)};
  ringwaySharedState_t state = nullptr;
  EXPECT_EQ(ringwaySharedStateInit(nullptr, &tensor, 1, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwaySharedStateInit(&state, nullptr, 1, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwaySharedStateInit(&state, &nameless, 1, nullptr), ringwayInvalidArgument);
  ringwaySharedStateConfig_t config = RINGWAY_SHARED_STATE_CONFIG_INITIALIZER;
  config.size = 1;
  EXPECT_EQ(ringwaySharedStateInit(&state, &tensor, 1, &config), ringwayInvalidArgument);
  EXPECT_EQ(state, nullptr);
  config = RINGWAY_SHARED_STATE_CONFIG_INITIALIZER;
  config.revision = 8;
  ASSERT_EQ(ringwaySharedStateInit(&state, &tensor, 1, &config), ringwaySuccess) << ringwayGetLastError(nullptr);
  EXPECT_EQ(ringwaySharedStateRevision(state, &revision), ringwaySuccess);
  EXPECT_EQ(revision, 8U);
  EXPECT_EQ(ringwaySharedStateRevision(state, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwaySharedStateSync(state, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwaySharedStateAdvance(nullptr, nullptr, 0), ringwayInvalidArgument);
  EXPECT_EQ(ringwaySyncState(&tensor, 1, ringwayStatePopular, nullptr, &revision), ringwayInvalidArgument);
  EXPECT_EQ(ringwaySharedStateDestroy(state), ringwaySuccess);
  EXPECT_EQ(ringwaySharedStateDestroy(nullptr), ringwaySuccess);
}

TEST_F(SharedStateTest, TensorsOfADeviceAreReadAndWrittenToo) {
  std::uint64_t host = 5;
  const Memory memory(kSize, 3, 1);
  const auto tensors = [&host](const Memory& device) {
    return std::vector<StateTensor>{{"host", &host, sizeof(host)}, {"device", device.data(), kSize}};
  };
  auto state = SharedState::Make(tensors(memory), {.path = path_});
  ASSERT_TRUE(state.ok()) << state.status().text();
  Save(&*state);
  const Memory other(kSize, 77);
  host = 0;
  const auto read = SharedState::Make(tensors(other), {.path = path_});
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(host, 5U);
  EXPECT_TRUE(other.Copy() == memory.Copy());
}

TEST_F(SharedStateTest, DeviceThatFailsOrHangsIsAnError) {
  const Memory memory(kSize);
  auto state = SharedState::Make({{"x", memory.data(), kSize}}, {.path = path_});
  ASSERT_TRUE(state.ok());
  device().SetFaults({.fail_one_in = 1});
  EXPECT_EQ(state->Advance(*session_, false).status().code(), Code::kIo);
  device().SetFaults({.no_memory_one_in = 1});
  EXPECT_FALSE(SharedState::Make({{"x", memory.data(), kSize + 1}}, {}).ok());  // ends elsewhere
  device().SetFaults({.hang_one_in = 1, .patience_ms = 10});
  EXPECT_EQ(state->Advance(*session_, false).status().code(), Code::kIo);
  EXPECT_FALSE(fs::exists(path_) || fs::exists(path_ + ".new"));
  device().Reset();
  Save(&*state);
  EXPECT_EQ(state->revision(), 3U);
}

}  // namespace
}  // namespace ringway

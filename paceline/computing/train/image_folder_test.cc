// Folders of images, whole and with something wrong in them.
#include <numeric>

#include <png.h>
#include <torch/types.h>

#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/testing.h"

namespace paceline::train {
namespace {

constexpr auto kBadFolder = absl::StatusCode::kInvalidArgument;

// A PNG of one grey or one colour.
void write_png(const TempDir& dir, const std::string& name, int width, int height, Bytes pixel) {
  std::filesystem::create_directories((dir.path() / name).parent_path());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = pixel.size() == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Bytes pixels;
  for (int i = 0; i < width * height; ++i) pixels.insert(pixels.end(), pixel.begin(), pixel.end());
  ASSERT_TRUE(png_image_write_to_file(&image, dir.file(name).c_str(), 0, pixels.data(), 0, nullptr));
}

absl::StatusOr<DataSets> load_folder(const TempDir& dir) {
  config::DataConfig data;
  data.source = "images:" + dir.path().string();
  return load_data(data, 0);
}

Batch all_of(const DataSet& set) {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return set.batch(indices, 0);
}

// Cats are dark, dogs are light.
void write_pets(const TempDir& dir, const std::string& half, int of_each) {
  for (int i = 0; i < of_each; ++i) {
    write_png(dir, half + "cat/" + std::to_string(i) + ".png", 6, 4, {static_cast<std::uint8_t>(i)});
    write_png(dir, half + "dog/" + std::to_string(i) + ".png", 6, 4, {static_cast<std::uint8_t>(200 + i)});
  }
}

TEST(ImageFolder, ClassesComeInTurnFromFoldersTrainAndTest) {
  TempDir dir;
  write_pets(dir, "train/", 3);
  write_pets(dir, "test/", 1);
  dir.write("train/.DS_Store", bytes_of("no folder"));
  dir.write("train/cat/.hidden", bytes_of("no image"));
  const auto sets = load_folder(dir);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 6);
  EXPECT_EQ(sets->test->size(), 2);
  EXPECT_EQ(sets->train->classes(), 2);
  EXPECT_EQ(sets->note, "");
  EXPECT_EQ(sets->train->sample_shape(), (std::vector<std::int64_t>{1, 4, 6}));
  const Batch batch = all_of(*sets->train);
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({0, 1, 0, 1, 0, 1}, torch::kInt64)));
  EXPECT_NEAR(batch.inputs.mean().item<double>(), 0, 1e-5);
  EXPECT_LT(batch.inputs[0].max().item<double>(), batch.inputs[1].min().item<double>());
}

TEST(ImageFolder, WithoutTheseEveryFifthImageTests) {
  TempDir dir;
  write_pets(dir, "", 11);
  const auto sets = load_folder(dir);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 18);
  EXPECT_EQ(sets->test->size(), 4);
  EXPECT_NE(sets->note.find("every fifth"), std::string::npos);
}

TEST(ImageFolder, OneColouredImageMakesAllOfThemThreePlanes) {
  TempDir dir;
  write_pets(dir, "train/", 2);
  write_pets(dir, "test/", 1);
  write_png(dir, "train/cat/red.png", 6, 4, {255, 0, 0});
  const auto sets = load_folder(dir);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->sample_shape(), (std::vector<std::int64_t>{3, 4, 6}));
}

TEST(ImageFolder, EachBadFileIsOneLineThatNamesIt) {
  TempDir dir;
  write_pets(dir, "train/", 2);
  write_pets(dir, "test/", 1);
  dir.write("train/cat/notes.txt", bytes_of("not an image"));
  expect_error(load_folder(dir).status(), kBadFolder, {"train/cat/notes.txt: neither a PNG nor a JPEG"});
  std::filesystem::remove(dir.path() / "train/cat/notes.txt");
  write_png(dir, "train/cat/large.png", 6, 5, {1});
  expect_error(load_folder(dir).status(), kBadFolder,
               {"train/cat/large.png: 6 x 5 pixels", "6 x 4", "one size"});
  std::filesystem::remove(dir.path() / "train/cat/large.png");
  std::filesystem::resize_file(dir.path() / "train/dog/1.png", 60);
  expect_error(load_folder(dir).status(), kBadFolder, {"train/dog/1.png: a damaged PNG"});
}

TEST(ImageFolder, RefusesFoldersThatAreNoClasses) {
  TempDir dir;
  expect_error(load_folder(dir).status(), kBadFolder, {"0 folders", "a folder for each class"});
  write_pets(dir, "train/", 1);
  write_pets(dir, "test/", 1);
  write_png(dir, "test/mouse/0.png", 6, 4, {1});
  expect_error(load_folder(dir).status(), kBadFolder, {"test/mouse", "does not have"});
  TempDir empty;
  std::filesystem::create_directories(empty.path() / "a");
  std::filesystem::create_directories(empty.path() / "b");
  expect_error(load_folder(empty).status(), kBadFolder, {"/a: no image is in it", "remove the folder"});
  std::filesystem::remove(empty.path() / "b");
  expect_error(load_folder(empty).status(), kBadFolder, {": 1 folder, but"});
  write_png(empty, "a/0.png", 6, 4, {1});
  write_png(empty, "b/0.png", 6, 4, {1});
  expect_error(load_folder(empty).status(), kBadFolder, {"0 to test with"});
}

// A class without an image would never be trained.
TEST(ImageFolder, RefusesAClassWithoutAnImage) {
  for (const std::string half : {"train/", ""}) {
    TempDir dir;
    write_pets(dir, half, 5);
    if (!half.empty()) write_pets(dir, "test/", 1);
    std::filesystem::create_directories(dir.path() / half / "mouse");
    dir.write(half + "mouse/.hidden", bytes_of("no image"));
    expect_error(load_folder(dir).status(), kBadFolder, {half + "mouse: no image is in it"});
  }
}

}  // namespace
}  // namespace paceline::train

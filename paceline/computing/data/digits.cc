#include "paceline/computing/data/digits.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "paceline/base/rng.h"

namespace paceline::data {

namespace {

constexpr int kSide = kDigitSide;
constexpr int kPixel = 64;  // lengths are in sixty-fourths of a pixel

struct Point {
  int x = 0;
  int y = 0;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;
using Canvas = DrawnDigit::Pixels;

// The ways to write each digit, in a box of 16 x 24, downwards.
const std::array<std::vector<Glyph>, 10>& glyphs() {
  static const std::array<std::vector<Glyph>, 10> kGlyphs = {{
      {{{{8, 0}, {14, 4}, {16, 12}, {14, 20}, {8, 24}, {2, 20}, {0, 12}, {2, 4}, {8, 0}}}},
      {{{{8, 0}, {8, 24}}}, {{{3, 5}, {8, 0}, {8, 24}}}, {{{3, 5}, {8, 0}, {8, 24}}, {{3, 24}, {13, 24}}}},
      {{{{1, 5}, {4, 1}, {9, 0}, {14, 3}, {14, 8}, {8, 15}, {1, 24}, {15, 24}}}},
      {{{{1, 2}, {7, 0}, {14, 3}, {13, 9}, {7, 12}, {14, 15}, {15, 20}, {8, 24}, {1, 22}}},
       {{{1, 0}, {14, 0}, {7, 10}, {14, 14}, {14, 20}, {8, 24}, {1, 22}}}},
      {{{{11, 24}, {11, 0}, {0, 16}, {16, 16}}}, {{{3, 0}, {1, 13}, {15, 13}}, {{12, 5}, {12, 24}}}},
      {{{{14, 0}, {3, 0}, {2, 11}, {9, 9}, {15, 14}, {13, 21}, {7, 24}, {1, 21}}}},
      {{{{12, 0}, {5, 6}, {1, 15}, {3, 22}, {9, 24}, {15, 20}, {13, 13}, {7, 12}, {2, 17}}}},
      {{{{0, 0}, {15, 0}, {6, 24}}}, {{{0, 0}, {15, 0}, {6, 24}}, {{4, 12}, {14, 12}}}},
      {{{{8, 12},
         {2, 7},
         {4, 1},
         {8, 0},
         {12, 1},
         {14, 7},
         {8, 12},
         {1, 17},
         {3, 23},
         {8, 24},
         {13, 23},
         {15, 17},
         {8, 12}}}},
      {{{{14, 8}, {9, 12}, {3, 10}, {1, 5}, {5, 0}, {11, 0}, {14, 5}, {14, 8}, {12, 24}}},
       {{{14, 8}, {9, 12}, {3, 10}, {1, 5}, {5, 0}, {11, 0}, {14, 5}, {13, 17}, {5, 24}}}},
  }};
  return kGlyphs;
}

int between(Rng& rng, int least, int most) {
  return least + static_cast<int>(rng.below(static_cast<std::uint64_t>(most - least + 1)));
}

// The map from the box of the glyphs to the image, a little different for each image.
class Placing {
 public:
  explicit Placing(Rng& rng)
      : wide_(between(rng, 34, 58)),
        high_(between(rng, 34, 54)),
        lean_(between(rng, -20, 20)),
        climb_(between(rng, -14, 14)),
        right_(between(rng, -3 * kPixel, 3 * kPixel)),
        down_(between(rng, -3 * kPixel, 3 * kPixel)) {}

  Point operator()(Point point, Rng& rng) const {
    const int x = 8 * (point.x - 8) + between(rng, -11, 11);  // eighths of the box's units
    const int y = 8 * (point.y - 12) + between(rng, -11, 11);
    return {kSide / 2 * kPixel + right_ + (wide_ * x - lean_ * y) / 8,
            kSide / 2 * kPixel + down_ + (high_ * y + climb_ * x) / 8};
  }

 private:
  int wide_, high_, lean_, climb_, right_, down_;
};

std::int64_t squared_distance(Point p, Point a, Point b) {
  const std::int64_t vx = b.x - a.x, vy = b.y - a.y, wx = p.x - a.x, wy = p.y - a.y;
  const std::int64_t along = vx * wx + vy * wy, length = vx * vx + vy * vy;
  if (along <= 0) return wx * wx + wy * wy;
  if (along >= length) return (wx - vx) * (wx - vx) + (wy - vy) * (wy - vy);
  const std::int64_t across = vx * wy - vy * wx;
  return across * across / length;
}

// A line as bright as `ink` up to `radius` from its middle, fading out within a pixel from there.
void draw_line(Point a, Point b, int radius, int ink, Canvas& canvas) {
  const int reach = radius + kPixel;
  const auto pixel = [](int at) { return std::clamp(at / kPixel, 0, kSide - 1); };
  const std::int64_t full = static_cast<std::int64_t>(radius) * radius;
  const std::int64_t none = static_cast<std::int64_t>(reach) * reach;
  for (int y = pixel(std::min(a.y, b.y) - reach); y <= pixel(std::max(a.y, b.y) + reach); ++y) {
    for (int x = pixel(std::min(a.x, b.x) - reach); x <= pixel(std::max(a.x, b.x) + reach); ++x) {
      const Point middle{x * kPixel + kPixel / 2, y * kPixel + kPixel / 2};
      const std::int64_t distance = std::max(squared_distance(middle, a, b), full);
      if (distance >= none) continue;
      const auto value = static_cast<std::uint8_t>(ink * (none - distance) / (none - full));
      std::uint8_t& there = canvas[static_cast<std::size_t>(y * kSide + x)];
      there = std::max(there, value);
    }
  }
}

void draw_glyph(int digit, Rng& rng, Canvas& canvas) {
  const std::vector<Glyph>& ways = glyphs()[static_cast<std::size_t>(digit)];
  const Glyph& glyph = ways[rng.below(ways.size())];
  const Placing place(rng);
  const int radius = between(rng, kPixel / 4, kPixel * 5 / 4);
  const int ink = between(rng, 110, 255);
  for (const Stroke& stroke : glyph) {
    Point from = place(stroke.front(), rng);
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      const Point to = place(stroke[i], rng);
      draw_line(from, to, radius, ink, canvas);
      from = to;
    }
  }
}

// Short strokes that belong to nothing: none, one or two.
void draw_clutter(Rng& rng, Canvas& canvas) {
  for (int left = between(rng, 0, 2); left > 0; --left) {
    const Point from{between(rng, 0, kSide * kPixel), between(rng, 0, kSide * kPixel)};
    const Point to{from.x + between(rng, -6 * kPixel, 6 * kPixel),
                   from.y + between(rng, -6 * kPixel, 6 * kPixel)};
    const int radius = between(rng, kPixel / 4, kPixel);
    const int ink = between(rng, 110, 255);
    draw_line(from, to, radius, ink, canvas);
  }
}

void add_noise(Rng& rng, Canvas& canvas) {
  const int most = between(rng, 10, 90);
  for (std::uint8_t& pixel : canvas)
    pixel = static_cast<std::uint8_t>(std::clamp(pixel + between(rng, -most, most), 0, 255));
}

}  // namespace

DrawnDigit draw_digit(DigitsHalf half, std::int32_t index) {
  Rng rng(mix_seed({kDigitsDrawing, static_cast<std::uint64_t>(half), static_cast<std::uint64_t>(index)}));
  DrawnDigit drawn;
  drawn.label = static_cast<std::uint8_t>(between(rng, 0, 9));
  draw_glyph(drawn.label, rng, drawn.pixels);
  draw_clutter(rng, drawn.pixels);
  add_noise(rng, drawn.pixels);
  return drawn;
}

}  // namespace paceline::data

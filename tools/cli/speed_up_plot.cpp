#include "cli/speed_up_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace gradwire {
namespace {

using namespace planner;

constexpr double kPanelWidth = 360;
constexpr double kPanelHeight = 230;
constexpr double kLeft = 52;   // of a panel's frame, for the labels of the axis
constexpr double kBelow = 46;  // of a panel's frame
constexpr double kAbove = 34;  // of a panel's frame, for its title
constexpr double kRight = 22;
constexpr double kHeader = 54;
constexpr double kLegendEntry = 100;
constexpr int kPointsPerLine = 60;

__attribute__((format(printf, 1, 2))) std::string print(const char* format, ...) {
  std::array<char, 512> text;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  return text.data();
}

// A logarithmic axis from one place on the paper to another.
struct Axis {
  double lowest;
  double highest;
  double from;
  double to;

  double place(double value) const {
    return from + (to - from) * std::log(value / lowest) / std::log(highest / lowest);
  }
  // 1, 2 and 5 times powers of ten; powers of ten alone where that would be too many.
  std::vector<double> ticks() const {
    const bool is_long = highest / lowest > 500;
    std::vector<double> values;
    const int first = static_cast<int>(std::floor(std::log10(lowest)));
    const int last = static_cast<int>(std::floor(std::log10(highest)));
    for (int exponent = first; exponent <= last; ++exponent) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10, exponent);
        const bool is_within = value >= 0.999 * lowest && value <= 1.001 * highest;
        if (is_within && (digit == 1 || !is_long)) values.push_back(value);
      }
    }
    return values;
  }
};

std::vector<double> spread_over(double lowest, double highest) {
  std::vector<double> values(kPointsPerLine);
  for (int i = 0; i < kPointsPerLine; ++i) {
    values[i] = lowest * std::pow(highest / lowest, i / (kPointsPerLine - 1.0));
  }
  return values;
}

class Plot {
 public:
  explicit Plot(SweepRequest request) : request_(std::move(request)) {
    const auto [lowest, highest] = std::ranges::minmax(request_.bandwidths);
    // A single bandwidth still makes a plot: of its neighbourhood.
    lowest_ = lowest < highest ? lowest : lowest / 10;
    highest_ = lowest < highest ? highest : highest * 10;
    request_.bandwidths = spread_over(lowest_, highest_);
    points_ = sweep_points(request_);
    for (const SweepPoint& point : points_) {
      for (size_t i = 0; i < request_.methods.size(); ++i) {
        greatest_ = std::max(greatest_, point.speed_up(i));
        smallest_ = std::min(smallest_, point.speed_up(i));
      }
    }
    // What loses by more than this has lost; it shall not squeeze the rest.
    smallest_ = std::max(smallest_ / 1.1, 0.1);
    greatest_ *= 1.15;
  }

  std::string draw() {
    const size_t panels = request_.workers.size();
    const size_t columns = panels <= 1 ? 1 : 2;
    const size_t rows = (panels + columns - 1) / columns;
    width_ = static_cast<double>(columns) * (kLeft + kPanelWidth + kRight);
    const double panel = kAbove + kPanelHeight + kBelow;
    const size_t legend_rows =
        (request_.methods.size() + entries_per_row() - 1) / entries_per_row();
    const double height = kHeader + static_cast<double>(rows) * panel + 8 +
                          static_cast<double>(legend_rows) * 22 + 10;
    begin(height);
    for (size_t i = 0; i < panels; ++i) {
      const size_t row = i / columns;
      const size_t column = i % columns;
      draw_panel(i, static_cast<double>(column) * (kLeft + kPanelWidth + kRight) + kLeft,
                 kHeader + static_cast<double>(row) * panel + kAbove);
    }
    draw_legend(kHeader + static_cast<double>(rows) * panel + 14);
    return svg_ + "</svg>\n";
  }

 private:
  size_t entries_per_row() const { return static_cast<size_t>((width_ - kLeft) / kLegendEntry); }

  void begin(double height) {
    svg_ = print(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\""
        " height=\"%.0f\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\""
        " fill=\"#333\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        width_, height, width_, height);
    text(kLeft, 26, "start", "font-size=\"16\" font-weight=\"bold\"",
         request_.profile.name + ": speed-up over all-reduce");
    text(kLeft, 45, "start", "fill=\"#666\"",
         print("predicted; %.3g s of compute, %.0f MB of gradient, latency %.3g µs",
               request_.profile.compute_seconds(), request_.profile.gradient_bytes() / 1e6,
               request_.network.between_nodes.latency * 1e6));
  }

  void text(double x, double y, const char* anchor, const char* style, const std::string& content) {
    svg_ += print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, style);
    for (const char c : content) {
      svg_ += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    }
    svg_ += "</text>\n";
  }

  void line(double x1, double y1, double x2, double y2, const char* style) {
    svg_ += print("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
                  style);
  }

  void draw_panel(size_t row, double left, double top) {
    const Axis x{lowest_ * 8 / 1e9, highest_ * 8 / 1e9, left, left + kPanelWidth};
    const Axis y{smallest_, greatest_, top + kPanelHeight, top};
    text(left, top - 10, "start", "font-weight=\"bold\"",
         std::to_string(request_.workers[row]) + " workers");
    for (const double tick : x.ticks()) {
      line(x.place(tick), y.from, x.place(tick), y.to, "stroke=\"#eee\"");
      text(x.place(tick), y.from + 17, "middle", "", print("%g", tick));
    }
    for (const double tick : y.ticks()) {
      line(x.from, y.place(tick), x.to, y.place(tick), "stroke=\"#eee\"");
      text(x.from - 8, y.place(tick) + 4, "end", "", print("%g×", tick));
    }
    text((x.from + x.to) / 2, y.from + 35, "middle", "fill=\"#666\"", "bandwidth, Gb/s");
    line(x.from, y.place(1), x.to, y.place(1), "stroke=\"#000\" stroke-dasharray=\"5 4\"");
    for (size_t i = 0; i < request_.methods.size(); ++i) draw_method(row, i, x, y);
    svg_ += print(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\""
        " stroke=\"#999\"/>\n",
        left, top, kPanelWidth, kPanelHeight);
  }

  void draw_method(size_t row, size_t method, const Axis& x, const Axis& y) {
    const MethodModel& model = *request_.methods[method].model;
    if (model.is_plain()) return;  // the dashed line
    svg_ += print(
        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-linejoin=\"round\""
        " points=\"",
        model.colour.c_str());
    for (size_t i = 0; i < request_.bandwidths.size(); ++i) {
      const SweepPoint& point = points_[row * request_.bandwidths.size() + i];
      if (point.speed_up(method) < smallest_) continue;
      svg_ +=
          print("%.1f,%.1f ", x.place(point.bandwidth * 8 / 1e9), y.place(point.speed_up(method)));
    }
    svg_ += "\"/>\n";
  }

  void draw_legend(double top) {
    for (size_t i = 0; i < request_.methods.size(); ++i) {
      const MethodModel& model = *request_.methods[i].model;
      const size_t row = i / entries_per_row();
      const size_t column = i % entries_per_row();
      const double x = kLeft + kLegendEntry * static_cast<double>(column);
      const double y = top + 22 * static_cast<double>(row);
      line(x, y, x + 22, y,
           print("stroke=\"%s\" stroke-width=\"2\"%s", model.colour.c_str(),
                 model.is_plain() ? " stroke-dasharray=\"5 4\"" : "")
               .c_str());
      text(x + 28, y + 4, "start", "", model.name);
    }
  }

  SweepRequest request_;
  std::vector<SweepPoint> points_;
  double lowest_ = 0;
  double highest_ = 0;
  double smallest_ = 1;
  double greatest_ = 1;
  double width_ = 0;
  std::string svg_;
};

}  // namespace

std::string speed_up_plot(const SweepRequest& request) { return Plot(request).draw(); }

}  // namespace gradwire

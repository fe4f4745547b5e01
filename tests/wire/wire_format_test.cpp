// Checks that the code writes the worked example of docs/wire_format.md.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "wire/payload.h"

namespace gradwire::wire {
namespace {

std::vector<std::byte> documented_example() {
  std::ifstream page(GRADWIRE_DOCS_DIR "/wire_format.md");
  std::vector<std::byte> bytes;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      inside = line == "```hex";
      continue;
    }
    if (!inside) continue;
    std::istringstream fields(line.substr(0, line.find('#')));
    for (std::string field; fields >> field;) {
      bytes.push_back(static_cast<std::byte>(std::stoul(field, nullptr, 16)));
    }
  }
  return bytes;
}

TEST(WireFormat, TheDocumentedExampleIsWhatIsWritten) {
  const PositionsShape shape{1000, 500, true};
  std::vector<std::byte> buffer(kHeaderBytes + 2 * adacomp_bound(shape));
  PayloadWriter writer(buffer, Method::adacomp);
  writer.abstain();
  PositionsWriter& positions = writer.begin_adacomp(shape);
  positions.chunk(std::vector<std::uint32_t>{2 * 3, 2 * 137 + 1, 2 * 300});
  positions.chunk({});
  writer.end(0.5F);
  buffer.resize(writer.finish(1));
  EXPECT_EQ(buffer, documented_example());
}

}  // namespace
}  // namespace gradwire::wire

#pragma once

#include <string>

namespace gradwire {

// Makes a page with pictures of the results in this JSON file, by means of the script report.py,
// which is installed with this command. Returns the page's path.
std::string write_report(const std::string& results_file, const std::string& folder);

}  // namespace gradwire

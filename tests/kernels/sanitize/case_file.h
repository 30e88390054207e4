// A file of named arrays, as sanitizer_cases.py writes them one behind the other: the length of the
// name (int32), the name, the type ('f' float, 'd' double, 'i' int32, 'q' int64), the number of
// elements (int64), the elements.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace sdrop {

class CaseFile {
 public:
  explicit CaseFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) fail("cannot be opened");
    while (file_.peek() != std::ifstream::traits_type::eof()) {
      std::string name(read<std::int32_t>(1)[0], ' ');
      file_.read(name.data(), static_cast<std::streamsize>(name.size()));
      const char type = read<char>(1)[0];
      const auto count = read<std::int64_t>(1)[0];
      if (type == 'f') floats_[name] = read<float>(count);
      if (type == 'd') doubles_[name] = read<double>(count);
      if (type == 'i') integers_[name] = read<std::int32_t>(count);
      if (type == 'q') indices_[name] = read<std::int64_t>(count);
    }
  }

  bool has(const std::string& name) const { return floats_.count(name) || indices_.count(name); }
  const std::vector<float>& floats(const std::string& name) const { return find(floats_, name); }
  const std::map<std::string, std::vector<double>>& doubles() const { return doubles_; }
  const std::vector<std::int32_t>& integers(const std::string& name) const {
    return find(integers_, name);
  }
  const std::vector<std::int64_t>& indices(const std::string& name) const {
    return find(indices_, name);
  }
  std::int64_t number(const std::string& name) const { return indices(name).at(0); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(path_ + ": " + what);
  }

  template <typename Element>
  std::vector<Element> read(std::int64_t count) {
    std::vector<Element> elements(static_cast<std::size_t>(count));
    const auto bytes = static_cast<std::streamsize>(elements.size() * sizeof(Element));
    if (!file_.read(reinterpret_cast<char*>(elements.data()), bytes)) fail("ends too early");
    return elements;
  }

  template <typename Arrays>
  const typename Arrays::mapped_type& find(const Arrays& arrays, const std::string& name) const {
    const auto found = arrays.find(name);
    if (found == arrays.end()) fail("has no array " + name);
    return found->second;
  }

  std::string path_;
  std::ifstream file_;
  std::map<std::string, std::vector<float>> floats_;
  std::map<std::string, std::vector<double>> doubles_;
  std::map<std::string, std::vector<std::int32_t>> integers_;
  std::map<std::string, std::vector<std::int64_t>> indices_;
};

}  // namespace sdrop

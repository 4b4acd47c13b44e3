// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// As much of MessagePack as records between Python and this library need.

#ifndef MANTA_MSGPACK_H
#define MANTA_MSGPACK_H

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace manta {

class Reader {
 public:
  Reader(const uint8_t* base, size_t size) : at_(base), end_(base + size) {}

  uint32_t array() {
    const uint8_t kind = byte();
    if ((kind & 0xf0) == 0x90) return kind & 0x0f;
    if (kind == 0xdc) return big<uint16_t>();
    if (kind == 0xdd) return big<uint32_t>();
    throw wrong(kind);
  }

  uint32_t map() {
    const uint8_t kind = byte();
    if ((kind & 0xf0) == 0x80) return kind & 0x0f;
    if (kind == 0xde) return big<uint16_t>();
    if (kind == 0xdf) return big<uint32_t>();
    throw wrong(kind);
  }

  // Text or bytes; valid as long as the message.
  std::string_view text() {
    const uint8_t kind = byte();
    if ((kind & 0xe0) == 0xa0) return bytes(kind & 0x1f);
    switch (kind) {
      case 0xc4: case 0xd9: return bytes(byte());
      case 0xc5: case 0xda: return bytes(big<uint16_t>());
      case 0xc6: case 0xdb: return bytes(big<uint32_t>());
      default: throw wrong(kind);
    }
  }

  int64_t integer() {
    const uint8_t kind = byte();
    if (kind < 0x80) return kind;
    if (kind >= 0xe0) return static_cast<int8_t>(kind);
    switch (kind) {
      case 0xcc: return byte();
      case 0xcd: return big<uint16_t>();
      case 0xce: return big<uint32_t>();
      case 0xcf: return static_cast<int64_t>(big<uint64_t>());
      case 0xd0: return static_cast<int8_t>(byte());
      case 0xd1: return static_cast<int16_t>(big<uint16_t>());
      case 0xd2: return static_cast<int32_t>(big<uint32_t>());
      case 0xd3: return static_cast<int64_t>(big<uint64_t>());
      default: throw wrong(kind);
    }
  }

  bool boolean() {
    const uint8_t kind = byte();
    if ((kind & 0xfe) != 0xc2) throw wrong(kind);
    return kind & 1;
  }

  double number() {
    const uint8_t kind = byte();
    if (kind != 0xcb) throw wrong(kind);
    const uint64_t bits = big<uint64_t>();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  void nil() {
    if (const uint8_t kind = byte(); kind != 0xc0) throw wrong(kind);
  }

  bool is_text() const {
    const uint8_t kind = peek();
    return (kind & 0xe0) == 0xa0 || (kind >= 0xd9 && kind <= 0xdb);
  }
  bool is_boolean() const { return (peek() & 0xfe) == 0xc2; }
  bool is_number() const { return peek() == 0xcb; }

 private:
  uint8_t peek() const {
    if (at_ == end_) throw std::runtime_error("record is cut short");
    return *at_;
  }
  uint8_t byte() {
    const uint8_t value = peek();
    ++at_;
    return value;
  }
  std::string_view bytes(size_t size) {
    if (static_cast<size_t>(end_ - at_) < size) throw std::runtime_error("record is cut short");
    std::string_view view(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    return view;
  }
  template <typename T>
  T big() {
    T value = 0;
    for (char each : bytes(sizeof(T))) value = (value << 8) | static_cast<uint8_t>(each);
    return value;
  }
  static std::runtime_error wrong(uint8_t kind) {
    return std::runtime_error("record has an unexpected kind " + std::to_string(kind));
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

// Returns a text with what is not UTF-8 replaced: Python would refuse the whole record.
inline std::string valid_utf8(std::string_view text) {
  std::string valid(text);
  for (size_t at = 0; at < text.size();) {
    const uint8_t lead = text[at];
    const size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3
                                                                    : lead < 0xf5 ? 4 : 0;
    bool is_valid = size != 0 && at + size <= text.size();
    for (size_t next = 1; is_valid && next < size; ++next) {
      const uint8_t byte = text[at + next];
      // The second byte also tells overlong forms, surrogates and what is beyond Unicode.
      const uint8_t low = next > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
      const uint8_t high = next > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
      is_valid = byte >= low && byte <= high;
    }
    if (!is_valid) valid[at] = '?';
    at += is_valid ? size : 1;
  }
  return valid;
}

class Writer {
 public:
  void clear() { out_.clear(); }
  const std::string& bytes() const { return out_; }

  void array(uint32_t size) {
    if (size < 16) {
      put(0x90 | size);
    } else {
      put(0xdd);
      big<uint32_t>(size);
    }
  }
  void map(uint32_t size) {
    put(0xdf);
    big<uint32_t>(size);
  }
  void text(std::string_view given) {
    const std::string text = valid_utf8(given);
    put(0xdb);
    big<uint32_t>(text.size());
    out_.append(text);
  }
  void binary(const void* data, size_t size) {
    put(0xc6);
    big<uint32_t>(size);
    out_.append(static_cast<const char*>(data), size);
  }
  void integer(int64_t value) {
    if (value >= 0 && value < 0x80) {
      put(value);
    } else {
      put(0xd3);
      big<uint64_t>(value);
    }
  }
  void boolean(bool value) { put(value ? 0xc3 : 0xc2); }
  void number(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    put(0xcb);
    big<uint64_t>(bits);
  }

 private:
  void put(int value) { out_.push_back(static_cast<char>(value)); }
  template <typename T>
  void big(T value) {
    for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8) put((value >> shift) & 0xff);
  }

  std::string out_;
};

}  // namespace manta

#endif

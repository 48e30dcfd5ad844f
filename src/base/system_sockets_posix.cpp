// SPDX-License-Identifier: Apache-2.0
// Connections, shared memory and waits between processes: Linux, and as far as they have it other systems like it.
#ifndef _WIN32
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef __linux__
#include <elf.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/random.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "base/sockets.h"
#include "base/system.h"

namespace krafla::os {
namespace {

bool WaitFor(int descriptor, short events, int limit_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
  for (;;) {
    pollfd entry{descriptor, events, 0};
    const int ready = poll(&entry, 1, MillisecondsUntil(end));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// No wait in read and write, closed in programs that this one starts, small messages at once.
int Prepared(int descriptor) {
  if (descriptor < 0) return -1;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  const int one = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));  // of others it says that they have it not
#ifdef SO_NOSIGPIPE
  setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &one, sizeof(one));
#endif
  return descriptor;
}

int Closed(int descriptor) {
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
std::unique_ptr<addrinfo, FreeAddresses> Resolve(const std::string& host, int port, bool passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = (passive ? AI_PASSIVE : 0) | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string service = std::to_string(port);
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &list) != 0) {
    errno = EADDRNOTAVAIL;
    return nullptr;
  }
  return std::unique_ptr<addrinfo, FreeAddresses>(list);
}

std::string Numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = {};
  if (getnameinfo(address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return host;
}

// A local connection for which begin(descriptor, address, its size) holds.
template <typename Begin>
int OpenLocally([[maybe_unused]] const std::string& name, [[maybe_unused]] Begin begin) {
#ifdef __linux__
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) return -1;
  // Abstract: the name begins with a zero byte.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = Prepared(socket(AF_UNIX, SOCK_STREAM, 0));
  if (fd < 0) return -1;
  return begin(fd, reinterpret_cast<const sockaddr*>(&address), size) ? fd : Closed(fd);
#else
  return -1;
#endif
}

}  // namespace

int ListenOn(const std::string& host, int port, int backlog) {
  const auto addresses = Resolve(host, port, true);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const int fd = Prepared(socket(a->ai_family, SOCK_STREAM, 0));
    if (fd < 0) continue;
    const int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, backlog) == 0) return fd;
    Closed(fd);
  }
  return -1;
}

int PortOf(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return -1;
}

std::string OwnAddress(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return Numeric(reinterpret_cast<const sockaddr*>(&address), size);
}

std::vector<std::string> Addresses() {
  std::vector<std::string> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto size = static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    std::string text = Numeric(one->ifa_addr, size);
    // Link-local addresses of IPv6 mean something else on each machine.
    if (!text.empty() && !text.starts_with("fe80")) out.push_back(std::move(text));
  }
  freeifaddrs(list);
  return out;
}

int ConnectTo(const std::string& host, int port, int limit_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
  const auto addresses = Resolve(host, port, false);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const int fd = Prepared(socket(a->ai_family, SOCK_STREAM, 0));
    if (fd < 0) continue;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    int error = errno;
    if (error == EINPROGRESS && WaitFor(fd, POLLOUT, MillisecondsUntil(end))) {
      socklen_t size = sizeof(error);
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0) return fd;
    } else if (error == EINPROGRESS) {
      error = ETIMEDOUT;
    }
    close(fd);
    errno = error;
  }
  return -1;
}

int ListenLocally(const std::string& name, int backlog) {
  return OpenLocally(name, [&](int fd, const sockaddr* address, socklen_t size) {
    return bind(fd, address, size) == 0 && listen(fd, backlog) == 0;
  });
}

int ConnectLocally(const std::string& name) {
  return OpenLocally(name,
                     [](int fd, const sockaddr* address, socklen_t size) { return connect(fd, address, size) == 0; });
}

bool IsSameUser([[maybe_unused]] int descriptor) {
#ifdef __linux__
  ucred other{};
  socklen_t size = sizeof(other);
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
#else
  return false;
#endif
}

int AcceptFrom(int descriptor, int limit_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
  while (WaitFor(descriptor, POLLIN, MillisecondsUntil(end))) {
    const int fd = Prepared(accept(descriptor, nullptr, nullptr));
    if (fd >= 0) return fd;
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return -1;
  }
  errno = ETIMEDOUT;
  return -1;
}

int64_t SendSome(int descriptor, const void* from, std::size_t bytes) {
#ifdef MSG_NOSIGNAL
  constexpr int kFlags = MSG_NOSIGNAL;
#else
  constexpr int kFlags = 0;
#endif
  for (;;) {
    const ssize_t sent = send(descriptor, from, bytes, kFlags);
    if (sent >= 0) return sent;
    if (errno == EAGAIN) return kAgain;
    if (errno != EINTR) return -1;
  }
}

int64_t ReceiveSome(int descriptor, void* to, std::size_t bytes) {
  for (;;) {
    const ssize_t got = recv(descriptor, to, bytes, 0);
    if (got >= 0) return got;
    if (errno == EAGAIN) return kAgain;
    if (errno != EINTR) return -1;
  }
}

namespace {

// some(done) sends or receives from byte `done` on, as SendSome and ReceiveSome do.
template <typename Some>
bool All(int descriptor, short event, std::size_t bytes, int limit_ms, Some some) {
  const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
  for (std::size_t done = 0; done < bytes;) {
    const int64_t now = some(done);
    if (now == 0) errno = ECONNRESET;
    if (now == 0 || now == -1) return false;
    if (now != kAgain) {
      done += static_cast<std::size_t>(now);
    } else if (!WaitFor(descriptor, event, MillisecondsUntil(end))) {
      errno = ETIMEDOUT;
      return false;
    }
  }
  return true;
}

// One byte, and with it a descriptor.
class DescriptorMessage {
 public:
  DescriptorMessage() {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof(control_);
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;
  msghdr& message() { return message_; }
  cmsghdr* header() { return CMSG_FIRSTHDR(&message_); }

 private:
  char byte_ = 0;
  iovec data_{&byte_, 1};
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr message_{};
};

}  // namespace

bool SendAll(int descriptor, const void* from, std::size_t bytes, int limit_ms) {
  return All(descriptor, POLLOUT, bytes, limit_ms, [&](std::size_t done) {
    return SendSome(descriptor, static_cast<const std::byte*>(from) + done, bytes - done);
  });
}

bool ReceiveAll(int descriptor, void* to, std::size_t bytes, int limit_ms) {
  return All(descriptor, POLLIN, bytes, limit_ms, [&](std::size_t done) {
    return ReceiveSome(descriptor, static_cast<std::byte*>(to) + done, bytes - done);
  });
}

bool SendDescriptor(int connection, int descriptor) {
  DescriptorMessage out;
  cmsghdr* header = out.header();
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(connection, &out.message(), 0) == 1;
}

int ReceiveDescriptor(int connection, int limit_ms) {
  if (!WaitFor(connection, POLLIN, limit_ms)) {
    errno = ETIMEDOUT;
    return -1;
  }
  DescriptorMessage in;
  if (recvmsg(connection, &in.message(), 0) != 1) return -1;
  const cmsghdr* header = in.header();
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) {
    errno = EPROTO;
    return -1;
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return descriptor;
}

void PollAll(std::span<Polled> entries, int limit_ms) {
  std::vector<pollfd> polled;
  for (const Polled& e : entries)
    polled.push_back({e.descriptor, static_cast<short>(POLLIN | (e.wants_to_write ? POLLOUT : 0)), 0});
  if (poll(polled.data(), static_cast<nfds_t>(polled.size()), limit_ms) <= 0)
    for (pollfd& p : polled) p.revents = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].can_read = (polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    entries[i].can_write = (polled[i].revents & POLLOUT) != 0;
  }
}

bool MakePipe(int& read_end, int& write_end) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  read_end = Prepared(ends[0]);
  write_end = Prepared(ends[1]);
  return true;
}

int SharedMemory([[maybe_unused]] std::size_t bytes) {
#ifdef __linux__
  const int fd = static_cast<int>(syscall(SYS_memfd_create, "krafla", 1U /* MFD_CLOEXEC */));
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) != 0) return Closed(fd);
  return fd;
#else
  return -1;
#endif
}

void* MapShared(int descriptor, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

int Duplicate(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }

void WaitOnWord(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds limit) {
#ifdef __linux__
  const timespec time{static_cast<time_t>(limit.count() / 1'000'000'000),
                      static_cast<long>(limit.count() % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
#else
  if (word.load() == value)
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(limit, std::chrono::milliseconds(1)));
#endif
}

void WakeWord([[maybe_unused]] const std::atomic<uint32_t>& word) {
#ifdef __linux__
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
#endif
}

std::string HostIdentity() {
#ifdef __linux__
  char boot[64] = {};
  std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file == nullptr) return "";
  const bool read = std::fscanf(file, "%63s", boot) == 1;
  std::fclose(file);
  // Names of local connections are those of a network namespace.
  char space[64] = {};
  if (!read || readlink("/proc/self/ns/net", space, sizeof(space) - 1) <= 0) return "";
  return std::string(boot) + " " + space + " " + std::to_string(geteuid());
#else
  return "";
#endif
}

std::string BuildId() {
#ifdef __linux__
  struct Search {
    uintptr_t here;
    std::string id;
  } search{reinterpret_cast<uintptr_t>(&BuildId), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& out = *static_cast<Search*>(data);
        const std::span<const ElfW(Phdr)> headers(info->dlpi_phdr, info->dlpi_phnum);
        const bool is_ours = std::ranges::any_of(headers, [&](const auto& h) {
          const uintptr_t begin = info->dlpi_addr + h.p_vaddr;
          return h.p_type == PT_LOAD && out.here >= begin && out.here - begin < h.p_memsz;
        });
        if (!is_ours) return 0;
        for (const auto& h : headers) {
          if (h.p_type != PT_NOTE) continue;
          const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + h.p_vaddr);
          const auto* end = at + h.p_memsz;
          while (static_cast<std::size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof(note));
            const std::size_t name = (note.n_namesz + 3U) & ~3U, bytes = (note.n_descsz + 3U) & ~3U;
            if (static_cast<std::size_t>(end - at) < sizeof(note) + name + bytes) break;
            const unsigned char* value = at + sizeof(note) + name;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(at + sizeof(note), "GNU", 4) == 0)
              for (std::size_t i = 0; i < note.n_descsz; ++i) {
                char digits[3];
                std::snprintf(digits, sizeof(digits), "%02x", value[i]);
                out.id += digits;
              }
            at = value + bytes;
          }
        }
        return 1;
      },
      &search);
  return search.id;
#else
  return "";
#endif
}

bool RandomBytes(void* to, std::size_t bytes) {
#ifdef __linux__
  return getrandom(to, bytes, 0) == static_cast<ssize_t>(bytes);
#else
  const int fd = open("/dev/urandom", O_RDONLY);
  const bool read_all = fd >= 0 && read(fd, to, bytes) == static_cast<ssize_t>(bytes);
  if (fd >= 0) close(fd);
  return read_all;
#endif
}

void* LoadLibraryAt(const std::string& path, std::string& error) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    error = why == nullptr ? "it cannot be loaded" : why;
  }
  return library;
}

void* FindFunction(void* library, const char* name) { return dlsym(library, name); }

std::string ThisLibraryFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ThisLibraryFolder), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}

}  // namespace krafla::os
#endif

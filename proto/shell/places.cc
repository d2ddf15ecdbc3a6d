#include "proto/shell/places.h"

#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace ringway::shell {
namespace {

namespace fs = std::filesystem;

Status Refuse(const std::string& option, const std::string& what) {
  return {Code::kInvalidArgument, option + ": " + what};
}

fs::path DirectoryOf(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

Status CheckDirectory(const FilePlace& place) {
  const std::string& option = place.option;
  std::error_code ignored;
  fs::path directory = DirectoryOf(place.path);
  while (place.makes_directories && !fs::exists(directory, ignored) && directory != DirectoryOf(directory)) {
    directory = DirectoryOf(directory);
  }
  if (!fs::exists(directory, ignored)) {
    return Refuse(option, "there is no directory " + directory.string() + ": make it, or give another path");
  }
  if (!fs::is_directory(directory, ignored)) {
    return Refuse(option, directory.string() + " is no directory: give another path");
  }
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return Status::Ok();
  return Refuse(option, net::ErrnoStatus("cannot make files in " + directory.string(), errno).text() +
                            "; make it writable for whom the program runs as, or give another path");
}

}  // namespace

Status CheckFilePlace(const FilePlace& place) {
  std::error_code ignored;
  if (!fs::exists(place.path, ignored)) return CheckDirectory(place);
  if (fs::is_directory(place.path, ignored)) return Refuse(place.option, place.path + " is a directory: give a file");
  if (::access(place.path.c_str(), W_OK) == 0) return Status::Ok();
  return Refuse(place.option,
                net::ErrnoStatus("cannot write to " + place.path, errno).text() + "; give a file that can be written");
}

Status CheckSocketPlace(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Refuse(option, "path of a Unix socket has " + std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                              " bytes at most: give a shorter one");
  }
  if (fs::exists(path, ignored) && !fs::is_socket(path, ignored)) {
    return Refuse(option, path + " exists and is no socket: remove it, or give another path");
  }
  return CheckDirectory({.option = option, .path = path, .makes_directories = true});
}

namespace {

// A name that says by itself that it is this host's loopback interface.
bool SaysLoopback(const std::string& host) { return host == "localhost" || host.ends_with(".localhost"); }

Status NotLoopback(const std::string& option, const Endpoint& where, const net::SocketAddress& address) {
  const std::string is = net::IsNumericHost(where.host) ? "" : " (" + net::HostOf(address) + ")";
  return {Code::kInvalidArgument, option + " " + ToString(where) + is +
                                      " is not a loopback address: give --tls-dir (ringwayctl certs makes the "
                                      "certificates), or --insecure to leave all unencrypted on a network that you "
                                      "trust"};
}

}  // namespace

Status CheckListenAddress(const std::string& option, const Endpoint& where, const net::SocketAddress& address,
                          Reach reach) {
  const bool is_loopback = net::IsLoopback(address);
  if (reach == Reach::kThisHost) return is_loopback ? Status::Ok() : NotLoopback(option, where, address);
  const bool is_meant = net::IsNumericHost(where.host) || SaysLoopback(where.host);
  if (reach == Reach::kAny || !is_loopback || is_meant) return Status::Ok();
  return {Code::kInvalidArgument, option + " " + ToString(where) + " is " + net::HostOf(address) +
                                      " on this host (look at /etc/hosts), which no other host reaches: give an "
                                      "address of this host's network (ip address lists them), or 127.0.0.1 where "
                                      "all runs on this host"};
}

Result<net::SocketAddress> ResolveListen(const std::string& option, const Endpoint& where, Reach reach) {
  Result<net::SocketAddress> address = net::ResolveBlocking(where, true);
  if (!address.ok()) return Refuse(option, address.status().text() + "; give an address of this host");
  const Status status = CheckListenAddress(option, where, address.value(), reach);
  if (!status.ok()) return status;
  return address;
}

Status CheckHttpAddress(const std::string& address, Reach reach) {
  if (address.empty()) return Status::Ok();
  const Result<Endpoint> where = ParseEndpoint(address);
  if (!where.ok()) return Refuse("--http", where.status().text());
  return ResolveListen("--http", where.value(), reach).status();
}

Status CheckDialsLoopback(const std::string& option, const Endpoint& where) {
  const Result<net::SocketAddress> address = net::ResolveBlocking(where, false);
  if (!address.ok() || net::IsLoopback(address.value())) return Status::Ok();
  return NotLoopback(option, where, address.value());
}

Status CheckListenPlace(const std::string& option, const std::string& address) {
  const Result<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return Refuse(option, endpoint.status().text());
  const Result<net::SocketAddress> found = net::ResolveBlocking(endpoint.value(), true);
  if (!found.ok()) return Refuse(option, found.status().text() + "; give an address of this host");
  const Status status = net::CheckListenTcp(found.value());
  return status.ok() ? status : Refuse(option, status.text());
}

}  // namespace ringway::shell

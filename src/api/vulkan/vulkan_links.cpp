// SPDX-License-Identifier: Apache-2.0
#include "api/vulkan/vulkan_links.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "api/feature_names.h"
#include "api/group/exchange_modules.h"
#include "api/group/exchange_moves.h"
#include "api/vulkan/vulkan_client.h"
#include "api/vulkan/vulkan_executable.h"
#include "api/vulkan/vulkan_window.h"
#include "base/checked_math.h"
#include "base/index.h"

namespace krafla {
namespace {

// Elements of a member's share of a piece are a multiple of this: parts of a window begin where any device lets slots
// begin (256 bytes).
constexpr int64_t kShareGranule = 256;
constexpr int64_t kPieceBytes = int64_t{1} << 20;     // of a member's part of a window
constexpr int64_t kOneHopBytes = int64_t{256} << 10;  // of an all-reduce that every member sums for itself

constexpr PathKind kWindows[] = {PathKind::kDmaBuf, PathKind::kOpaqueFd, PathKind::kHostImport};

int64_t Rounded(int64_t bytes) { return RoundUp(bytes, static_cast<int64_t>(VulkanWindow::kAlignment)); }

// What a device is given for a collective, over the arrays in its slots.
class ExchangeProgram {
 public:
  explicit ExchangeProgram(std::unique_ptr<VulkanExecutable> computes) : computes_(std::move(computes)) {}
  // `sizes`: bytes of the operands, of which there are `operands`, and of the results. `beside`: on the second queue.
  static Result<std::shared_ptr<ExchangeProgram>> Make(const std::shared_ptr<vk::Device>& device, bool beside,
                                                       std::span<const int64_t> sizes, std::size_t operands,
                                                       std::span<const ExchangeMove> moves) {
    std::vector<vk::ProgramBuffer> buffers;
    for (const int64_t size : sizes)
      buffers.push_back(vk::ProgramBuffer::Slot(static_cast<int>(buffers.size()), static_cast<uint64_t>(size)));
    std::vector<vk::Step> steps;
    for (const ExchangeMove& m : moves) {
      const auto bytes = static_cast<uint64_t>(m.bytes);
      steps.push_back(vk::Copy{{static_cast<uint32_t>(m.from), static_cast<uint64_t>(m.from_offset), bytes},
                               {static_cast<uint32_t>(operands + m.to), static_cast<uint64_t>(m.to_offset), bytes}});
    }
    auto out = std::make_shared<ExchangeProgram>(nullptr);
    KRAFLA_ASSIGN(out->moves_,
                  vk::Program::Create(device, std::move(buffers), {}, std::move(steps), {.beside = beside}));
    return out;
  }

  // Where it goes beside: after `after`.
  Result<vk::Event> Run(std::span<const vk::BufferBinding> slots, vk::Event after) {
    if (computes_ != nullptr) return computes_->RunAt(slots, after);
    std::lock_guard lock(mutex_);
    return moves_->Submit(slots, nullptr, after);
  }

 private:
  std::unique_ptr<VulkanExecutable> computes_;
  std::mutex mutex_;  // of moves_
  std::unique_ptr<vk::Program> moves_;
};

const DevicePlaces& PlacesOf(const Contribution& member) { return *static_cast<const DevicePlaces*>(member.on_device); }
vk::Event AfterOf(const Contribution& member) { return {PlacesOf(member).after}; }

class VulkanLinks final : public DeviceLinks {
 public:
  VulkanLinks(std::span<const std::shared_ptr<Client>> clients, const CompileOptions& options,
              std::vector<std::shared_ptr<vk::Device>> devices, std::unordered_set<const Instruction*> beside)
      : clients_(clients.begin(), clients.end()),
        options_(options),
        devices_(std::move(devices)),
        beside_(std::move(beside)) {
    options_.for_group = options_.for_profile = options_.strict = options_.pack_elements = false;
    options_.enabled.erase("fast-functions");  // the same bits on every path
    options_.progress = {};
  }

  // What is under way reads and writes the window.
  ~VulkanLinks() override {
    for (std::size_t d = 0; d < last_use_.size(); ++d) devices_[d]->Settle(last_use_[d]);
  }

  Result<PathKind> Prepare(const Instruction& instruction, const Collective& collective) override;
  Result<> Finish() override;
  Result<> Run(const Collective& collective, int group, std::span<const Contribution> members,
               const RunLimit& limit) override;

 private:
  using Program = std::shared_ptr<ExchangeProgram>;
  // How one group of a collective runs.
  struct Prepared {
    PathKind path = PathKind::kHost;
    bool beside = false;             // on the second queues of those devices that have one
    Program together;                // kOneDevice: for all members
    std::vector<Program> by_member;  // in a window: of each, from the members' parts of the window
    // In a window, an all-reduce in pieces.
    bool in_pieces = false;
    const Computation* reduction = nullptr;
    int64_t members = 0;
    std::vector<ElementType> types;
    std::vector<int64_t> elements, bytes;  // of the operand leaves
  };
  struct Piece {
    int64_t from = 0, elements = 0, share = 0;
  };

  // A device, and whether its second queue does it.
  struct Where {
    std::size_t device = 0;
    bool beside = false;
    auto operator<=>(const Where&) const = default;
  };
  Where PlaceFor(int64_t device, const Prepared& prepared) const {
    const auto d = static_cast<std::size_t>(device);
    return {d, prepared.beside && devices_[d]->has_side_queue()};
  }
  // Nothing where the device does not take all of it.
  Result<Program> Compile(Where where, std::unique_ptr<Module> module);
  // The results of `ranks`, from the operands of all members; null as above.
  Result<Program> ProgramOf(Where where, const Instruction& instruction, int64_t members,
                            std::span<const int64_t> ranks, std::span<const int64_t> sources);
  // Where shaders run on the host's processors anyway, the CPU's vector loops are several times as fast
  // (docs/results/2026-11-23-collectives.md).
  bool SumsOn(std::size_t device) const {
    return !devices_[device]->profile().is_cpu || options_.enabled.contains(std::string(kDeviceSums));
  }
  Result<Prepared> PrepareGroup(const Instruction& instruction, const Collective& collective, int group);
  PathKind BestWindow() const;
  Result<bool> PreparePieces(const Instruction& instruction, std::span<const int64_t> devices, Prepared& out);
  Result<Program> CopyOf(Where where, int64_t bytes);
  Result<Program> SumOf(Where where, const Computation& reduction, int64_t members, int64_t elements);
  static std::vector<Piece> PiecesOf(int64_t elements, int64_t element_bytes, int64_t members);
  static int64_t ShareOf(const Piece& piece, int64_t rank) {
    return std::clamp<int64_t>(piece.elements - rank * piece.share, 0, piece.share);
  }
  Result<> RunTogether(const Prepared& prepared, std::span<const Contribution> members);
  Result<> RunByMember(const Prepared& prepared, std::span<const int64_t> devices,
                       std::span<const Contribution> members, const RunLimit& limit);
  Result<> RunPieces(const Prepared& prepared, std::size_t leaf, std::span<const int64_t> devices,
                     std::span<const Contribution> members, const RunLimit& limit);
  Result<> WaitForAll(std::span<const int64_t> devices, const RunLimit& limit);
  // Notes what a device was given last, for itself and for who awaits the collective.
  void Note(vk::Event last, std::size_t device, const Contribution& member) {
    last_use_[device] = last;
    if (last.beside) *PlacesOf(member).beside = last.number;
  }
  bool IsOff(PathKind kind) const { return options_.disabled.contains(std::string(NameOf(kind))); }
  // A member's parts of the window: what it brings, the next piece of it, and twice what it has summed.
  uint64_t Part(int64_t device) const { return static_cast<uint64_t>(device * (part_bytes_ + 3 * kPieceBytes)); }
  uint64_t Brought(int64_t device, int64_t turn) const {
    return Part(device) + static_cast<uint64_t>(turn % 2 * part_bytes_);
  }
  uint64_t Summed(int64_t device, int64_t turn) const {
    return Part(device) + static_cast<uint64_t>(part_bytes_ + (1 + turn % 2) * kPieceBytes);
  }

  std::vector<std::shared_ptr<Client>> clients_;
  CompileOptions options_;
  std::vector<std::shared_ptr<vk::Device>> devices_;
  std::unordered_set<const Instruction*> beside_;  // of those that are prepared: done while kernels run
  std::map<std::pair<const Collective*, int>, Prepared> prepared_;
  std::map<std::pair<Where, int64_t>, Program> copies_;
  // By reduction, members and elements. Programs whose reductions are equal are compiled once for each.
  std::map<std::tuple<Where, const Computation*, int64_t, int64_t>, Program> sums_;
  std::unique_ptr<VulkanWindow> window_;
  int64_t part_bytes_ = 0;               // of a member's part
  std::vector<vk::Event> last_use_;      // of the window, by device
  std::optional<PathKind> window_path_;  // the best window of all devices that came through its probe
};

Result<VulkanLinks::Program> VulkanLinks::Compile(Where where, std::unique_ptr<Module> module) {
  CompileOptions options = options_;
  options.beside = where.beside;
  KRAFLA_ASSIGN(std::unique_ptr<Executable> made, clients_[where.device]->Compile(std::move(module), options));
  auto* own = dynamic_cast<VulkanExecutable*>(made.get());
  if (own == nullptr || !own->report().fallbacks.empty() || own->device() != devices_[where.device]) return nullptr;
  made.release();
  return std::make_shared<ExchangeProgram>(std::unique_ptr<VulkanExecutable>(own));
}

Result<VulkanLinks::Program> VulkanLinks::ProgramOf(Where where, const Instruction& instruction, int64_t members,
                                                    std::span<const int64_t> ranks, std::span<const int64_t> sources) {
  if (const auto moves = MovesOf(instruction, members, ranks, sources)) {
    std::vector<int64_t> operands, results;
    for (const Instruction* o : instruction.operands())
      for (const Shape* s : TupleLeaves(o->shape()))
        if (s->IsArray()) operands.push_back(s->byte_size());
    for (const Shape* s : TupleLeaves(instruction.shape()))
      if (s->IsArray()) results.push_back(s->byte_size());
    std::vector<int64_t> sizes;
    for (int64_t m = 0; m < members; ++m) sizes.insert(sizes.end(), operands.begin(), operands.end());
    const std::size_t count = sizes.size();
    for (std::size_t r = 0; r < ranks.size(); ++r) sizes.insert(sizes.end(), results.begin(), results.end());
    return ExchangeProgram::Make(devices_[where.device], where.beside, sizes, count, *moves);
  }
  if (!instruction.called().empty() && !SumsOn(where.device)) return nullptr;
  KRAFLA_ASSIGN(auto module, ExchangeModule(instruction, members, ranks, sources));
  if (!module) return nullptr;
  return Compile(where, std::move(*module));
}

Result<VulkanLinks::Program> VulkanLinks::CopyOf(Where where, int64_t bytes) {
  Program& out = copies_[{where, bytes}];
  if (out != nullptr) return out;
  const int64_t sizes[] = {bytes, bytes};
  const ExchangeMove moves[] = {{.bytes = bytes}};
  KRAFLA_ASSIGN(out, ExchangeProgram::Make(devices_[where.device], where.beside, sizes, 1, moves));
  return out;
}

Result<VulkanLinks::Program> VulkanLinks::SumOf(Where where, const Computation& reduction, int64_t members,
                                                int64_t elements) {
  Program& out = sums_[{where, &reduction, members, elements}];
  if (out != nullptr) return out;
  KRAFLA_ASSIGN(auto module, CombineModule(reduction, members, elements));
  KRAFLA_ASSIGN(out, Compile(where, std::move(module)));
  return out;
}

std::vector<VulkanLinks::Piece> VulkanLinks::PiecesOf(int64_t elements, int64_t element_bytes, int64_t members) {
  // A piece is a share of each member, and its sums fit one member's part of the window.
  const int64_t share = kPieceBytes / element_bytes / members / kShareGranule * kShareGranule;
  std::vector<Piece> out;
  for (int64_t from = 0; from < elements; from += share * members) {
    const int64_t n = std::min(share * members, elements - from);
    out.push_back({from, n, n == share * members ? share : RoundUp((n + members - 1) / members, kShareGranule)});
  }
  return out;
}

Result<PathKind> VulkanLinks::Prepare(const Instruction& instruction, const Collective& collective) {
  PathKind worst = PathKind::kOneDevice;
  std::vector<std::pair<int, Prepared>> made;
  for (int g = 0; g < collective.groups(); ++g) {
    KRAFLA_ASSIGN(Prepared one, PrepareGroup(instruction, collective, g));
    worst = std::max(worst, one.path);
    made.emplace_back(g, std::move(one));
  }
  // All members of a collective reach it on the same path: some groups through the host would be the host for all.
  if (worst == PathKind::kHost) return worst;
  for (auto& [g, one] : made) prepared_.emplace(std::pair(&collective, g), std::move(one));
  return worst;
}

Result<VulkanLinks::Prepared> VulkanLinks::PrepareGroup(const Instruction& instruction, const Collective& collective,
                                                        int group) {
  const std::span<const int64_t> devices = collective.Members(group);
  const auto n = static_cast<int64_t>(devices.size());
  Prepared out;
  out.members = n;
  out.beside = beside_.contains(&instruction);
  for (const Instruction* o : instruction.operands())
    for (const Shape* s : TupleLeaves(o->shape())) {
      if (!s->IsArray()) continue;
      out.types.push_back(s->element_type());
      out.elements.push_back(s->element_count());
      out.bytes.push_back(s->byte_size());
    }
  std::vector<int64_t> ranks, sources;
  for (int64_t r = 0; r < n; ++r) {
    ranks.push_back(r);
    if (instruction.opcode() == Opcode::kCollectivePermute) {
      const int64_t source = collective.SourceOf(devices[At(r)]);
      sources.push_back(source < 0 ? -1 : collective.RankOf(source));
    }
  }
  const bool together =
      std::ranges::all_of(devices, [&](int64_t d) { return devices_[At(d)] == devices_[At(devices[0])]; });
  if (together && !IsOff(PathKind::kOneDevice)) {
    KRAFLA_ASSIGN(out.together, ProgramOf(PlaceFor(devices[0], out), instruction, n, ranks, sources));
    if (out.together != nullptr) out.path = PathKind::kOneDevice;
    return out;
  }
  if (!window_path_) window_path_ = BestWindow();
  if (*window_path_ == PathKind::kHost) return out;
  int64_t bytes = 0;
  for (const int64_t b : out.bytes) bytes += Rounded(b);
  const bool reduces = instruction.opcode() == Opcode::kAllReduce || instruction.opcode() == Opcode::kAllReduceStart;
  if (reduces && bytes > kOneHopBytes) {
    KRAFLA_ASSIGN(const bool taken, PreparePieces(instruction, devices, out));
    if (taken) out.path = *window_path_;
    return out;
  }
  for (int64_t r = 0; r < n; ++r) {
    const int64_t own[] = {r};
    const Where where = PlaceFor(devices[At(r)], out);
    KRAFLA_ASSIGN(Program program, ProgramOf(where, instruction, n, own, sources));
    if (program == nullptr) return out;
    out.by_member.push_back(std::move(program));
    for (const int64_t b : out.bytes) KRAFLA_TRY(CopyOf(where, b));
  }
  part_bytes_ = std::max(part_bytes_, bytes);
  out.path = *window_path_;
  return out;
}

PathKind VulkanLinks::BestWindow() const {
  for (const PathKind kind : kWindows) {
    if (IsOff(kind)) continue;
    auto window = VulkanWindow::Create(devices_, 0, kind);
    if (window && (*window)->Probe()) return kind;
  }
  return PathKind::kHost;
}

// Compiles everything that RunPieces asks for.
Result<bool> VulkanLinks::PreparePieces(const Instruction& instruction, std::span<const int64_t> devices,
                                        Prepared& out) {
  for (const int64_t d : devices)
    if (!SumsOn(At(d))) return false;
  out.in_pieces = true;
  out.reduction = instruction.called(0);
  for (std::size_t k = 0; k < out.bytes.size(); ++k) {
    if (out.elements[k] == 0) return false;
    const int64_t size = StorageBytes(out.types[k]);
    // Of so many members a share would be less than a slot's alignment.
    if (kPieceBytes / size / out.members < kShareGranule) return false;
    for (const Piece& piece : PiecesOf(out.elements[k], size, out.members))
      for (int64_t r = 0; r < out.members; ++r) {
        const Where where = PlaceFor(devices[At(r)], out);
        KRAFLA_ASSIGN(Program copy, CopyOf(where, piece.elements * size));
        if (copy == nullptr) return false;
        if (ShareOf(piece, r) == 0) continue;
        KRAFLA_ASSIGN(Program sum, SumOf(where, *out.reduction, out.members, ShareOf(piece, r)));
        if (sum == nullptr) return false;
      }
  }
  part_bytes_ = std::max(part_bytes_, kPieceBytes);
  return true;
}

Result<> VulkanLinks::Finish() {
  last_use_.resize(devices_.size());
  if (part_bytes_ == 0) return {};
  part_bytes_ = Rounded(part_bytes_);
  KRAFLA_ASSIGN(window_, VulkanWindow::Create(devices_, Part(static_cast<int64_t>(devices_.size())), *window_path_));
  return {};
}

Result<> VulkanLinks::Run(const Collective& collective, int group, std::span<const Contribution> members,
                          const RunLimit& limit) {
  const auto at = prepared_.find({&collective, group});
  if (at == prepared_.end()) return Internal("{} was not made ready.", collective.description());
  const Prepared& prepared = at->second;
  if (prepared.together != nullptr) return RunTogether(prepared, members);
  const std::span<const int64_t> devices = collective.Members(group);
  // What was read last may be overwritten when all have read it.
  KRAFLA_TRY(WaitForAll(devices, limit));
  if (!prepared.in_pieces) return RunByMember(prepared, devices, members, limit);
  for (std::size_t k = 0; k < prepared.bytes.size(); ++k) KRAFLA_TRY(RunPieces(prepared, k, devices, members, limit));
  return {};
}

vk::BufferBinding BindingOf(const DevicePlace& place) { return {place.buffer, place.offset}; }
Result<> VulkanLinks::RunTogether(const Prepared& prepared, std::span<const Contribution> members) {
  std::vector<vk::BufferBinding> slots;
  for (const Contribution& m : members)
    for (const DevicePlace& p : PlacesOf(m).operands) slots.push_back(BindingOf(p));
  for (const Contribution& m : members)
    for (const DevicePlace& p : PlacesOf(m).results) slots.push_back(BindingOf(p));
  // What all members gave the device before it.
  vk::Event after;
  for (const Contribution& m : members) after.number = std::max(after.number, PlacesOf(m).after);
  KRAFLA_ASSIGN(const vk::Event last, prepared.together->Run(slots, after));
  if (last.beside)
    for (const Contribution& m : members) *PlacesOf(m).beside = last.number;
  return {};
}

// The host's thread waits and signals: a device may be of another driver, which knows no semaphore of this one.
Result<> VulkanLinks::WaitForAll(std::span<const int64_t> devices, const RunLimit& limit) {
  for (const int64_t d : devices) KRAFLA_TRY(devices_[At(d)]->Wait(last_use_[At(d)], limit));
  return {};
}

Result<> VulkanLinks::RunByMember(const Prepared& prepared, std::span<const int64_t> devices,
                                  std::span<const Contribution> members, const RunLimit& limit) {
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Where where = PlaceFor(devices[m], prepared);
    uint64_t to = Brought(devices[m], 0);
    for (std::size_t k = 0; k < prepared.bytes.size(); ++k) {
      const vk::BufferBinding slots[] = {BindingOf(PlacesOf(members[m]).operands[k]), window_->At(where.device, to)};
      KRAFLA_ASSIGN(const vk::Event last, copies_.at({where, prepared.bytes[k]})->Run(slots, AfterOf(members[m])));
      Note(last, where.device, members[m]);
      to += static_cast<uint64_t>(Rounded(prepared.bytes[k]));
    }
  }
  KRAFLA_TRY(WaitForAll(devices, limit));
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::size_t device = At(devices[m]);
    std::vector<vk::BufferBinding> slots;
    for (const int64_t other : devices) {
      uint64_t from = Brought(other, 0);
      for (const int64_t bytes : prepared.bytes) {
        slots.push_back(window_->At(device, from));
        from += static_cast<uint64_t>(Rounded(bytes));
      }
    }
    for (const DevicePlace& p : PlacesOf(members[m]).results) slots.push_back(BindingOf(p));
    KRAFLA_ASSIGN(const vk::Event last, prepared.by_member[m]->Run(slots, AfterOf(members[m])));
    Note(last, device, members[m]);
  }
  return {};
}

// While one piece is summed, the next one is brought, and the sums of the one before are taken.
Result<> VulkanLinks::RunPieces(const Prepared& prepared, std::size_t leaf, std::span<const int64_t> devices,
                                std::span<const Contribution> members, const RunLimit& limit) {
  const int64_t size = StorageBytes(prepared.types[leaf]);
  const std::vector<Piece> pieces = PiecesOf(prepared.elements[leaf], size, prepared.members);
  const auto count = static_cast<int64_t>(pieces.size());
  for (int64_t step = 0; step < count + 2; ++step) {
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Where where = PlaceFor(devices[m], prepared);
      const std::size_t device = where.device;
      const vk::Event after = AfterOf(members[m]);
      const auto placed = [&](const DevicePlace& place, const Piece& piece) {
        return vk::BufferBinding{place.buffer, place.offset + static_cast<uint64_t>(piece.from * size)};
      };
      if (step < count) {
        const Piece& piece = pieces[At(step)];
        const vk::BufferBinding slots[] = {placed(PlacesOf(members[m]).operands[leaf], piece),
                                           window_->At(device, Brought(devices[m], step))};
        KRAFLA_ASSIGN(const vk::Event last, copies_.at({where, piece.elements * size})->Run(slots, after));
        Note(last, device, members[m]);
      }
      const auto rank = static_cast<int64_t>(m);
      if (step >= 1 && step <= count && ShareOf(pieces[At(step - 1)], rank) > 0) {
        const Piece& piece = pieces[At(step - 1)];
        const auto share_at = static_cast<uint64_t>(rank * piece.share * size);
        std::vector<vk::BufferBinding> slots;
        for (const int64_t other : devices) slots.push_back(window_->At(device, Brought(other, step - 1) + share_at));
        slots.push_back(window_->At(device, Summed(devices[0], step - 1) + share_at));
        const Program& sum = sums_.at({where, prepared.reduction, prepared.members, ShareOf(piece, rank)});
        KRAFLA_ASSIGN(const vk::Event last, sum->Run(slots, after));
        Note(last, device, members[m]);
      }
      if (step >= 2) {
        const Piece& piece = pieces[At(step - 2)];
        const vk::BufferBinding slots[] = {window_->At(device, Summed(devices[0], step - 2)),
                                           placed(PlacesOf(members[m]).results[leaf], piece)};
        KRAFLA_ASSIGN(const vk::Event last, copies_.at({where, piece.elements * size})->Run(slots, after));
        Note(last, device, members[m]);
      }
    }
    if (step < count + 1) KRAFLA_TRY(WaitForAll(devices, limit));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DeviceLinks>> LinkVulkanDevices(std::span<Executable* const> members,
                                                       std::span<const std::shared_ptr<Client>> clients,
                                                       const CompileOptions& options) {
  std::vector<std::shared_ptr<vk::Device>> devices;
  for (Executable* member : members) {
    auto* own = dynamic_cast<VulkanExecutable*>(member);
    // What has dynamic dimensions is wrapped: its arrays carry their sizes, which the host reads.
    if (own == nullptr) return nullptr;
    devices.push_back(own->device());
  }
  // The group prepares the first one's instructions.
  std::unordered_set<const Instruction*> beside;
  if (!options.disabled.contains(std::string(kSecondQueue)))
    beside = dynamic_cast<const VulkanExecutable&>(*members[0]).ExchangesBeside();
  return std::make_unique<VulkanLinks>(clients, options, std::move(devices), std::move(beside));
}

Result<std::vector<LinkProbe>> ProbeVulkanLinks(std::string_view from, std::string_view to) {
  std::vector<std::shared_ptr<vk::Device>> devices;
  for (const std::string_view selector : {from, to}) {
    KRAFLA_ASSIGN(std::shared_ptr<vk::Device> device, OpenTestedDevice(selector));
    devices.push_back(std::move(device));
  }
  std::vector<LinkProbe> out;
  if (from == to) out.push_back({PathKind::kOneDevice, ""});
  const uint32_t linked = devices[0]->LinkedDevices();
  out.push_back({PathKind::kDeviceGroup, linked > 1
                                             ? Format("krafla does not use linked devices yet; {} are.", linked)
                                             : Format("{} is linked to no other device.", devices[0]->profile().name)});
  for (const PathKind kind : kWindows) {
    auto window = VulkanWindow::Create(devices, 0, kind);
    const Result<> came = window ? (*window)->Probe() : Failure(window.error());
    out.push_back({kind, came ? "" : std::string(came.error().message())});
  }
  out.push_back({PathKind::kHost, ""});
  return out;
}

}  // namespace krafla

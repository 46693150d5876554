//! The numbers that detectors read, by name.

use crate::words::words;

words! {
    /// A number that a node, its BMC, a test or the control plane measures. Flags are 0 or 1, links
    /// 1 when up, states of sensors 0 (ok), 1 (warning), 2 (critical); ages are seconds.
    pub enum Metric {
        /// NVML: rows waiting for a reset to be remapped.
        GpuRemapPending = "gpu-remap-pending",
        /// NVML: a row could not be remapped.
        GpuRemapFailed = "gpu-remap-failed",
        /// NVML: memory banks with no spare row left.
        GpuRemapBanksExhausted = "gpu-remap-banks-exhausted",
        /// NVML: retired pages.
        GpuRetiredPages = "gpu-retired-pages",
        /// NVML: the SRAM error threshold flag.
        GpuSramThreshold = "gpu-sram-threshold",
        /// NVML: uncorrectable ECC errors since the driver was loaded.
        GpuEccUncorrected = "gpu-ecc-uncorrected",
        /// NVML: corrected ECC errors since the driver was loaded.
        GpuEccCorrected = "gpu-ecc-corrected",
        /// NVML: the clocks are held down by hardware because of heat.
        GpuThermalSlowdown = "gpu-thermal-slowdown",
        /// NVML: the clocks are held down by hardware because of power.
        GpuPowerBrake = "gpu-power-brake",
        /// NVML: degrees Celsius; expected is the slowdown threshold.
        GpuTemperature = "gpu-temperature",
        /// NVML: board power in watts.
        GpuPower = "gpu-power",
        /// NVML: the SM clock under load in MHz.
        GpuClock = "gpu-clock",
        /// NVML: the enforced power limit in watts.
        GpuPowerLimit = "gpu-power-limit",
        /// NVML: persistence mode is on.
        GpuPersistence = "gpu-persistence",
        /// PCIe lanes of a GPU.
        GpuPcieWidth = "gpu-pcie-width",
        /// PCIe generation of a GPU.
        GpuPcieGeneration = "gpu-pcie-generation",
        /// GPUs that the driver shows.
        GpuCount = "gpu-count",
        /// Seconds that the last query of the driver has gone unanswered.
        GpuQueryAge = "gpu-query-age",
        /// Seconds since DCGM gave a fresh sample.
        DcgmAge = "dcgm-age",
        /// NVLinks that are active on a GPU.
        NvlinkActive = "nvlink-active",
        /// MB/s of one NVLink, one direction.
        NvlinkSpeed = "nvlink-speed",
        /// The fabric manager runs and says Completed with Success.
        FabricManager = "fabric-manager",
        /// The IMEX domain is up.
        Imex = "imex",
        /// AER errors that end a link.
        PcieAerFatal = "pcie-aer-fatal",
        /// AER errors that lose a transaction.
        PcieAerNonFatal = "pcie-aer-nonfatal",
        /// AER errors that the hardware corrected.
        PcieAerCorrected = "pcie-aer-corrected",
        /// The port is active.
        LinkUp = "link-up",
        /// Gb/s of a port.
        LinkSpeed = "link-speed",
        /// InfiniBand symbol errors.
        IbSymbolErrors = "ib-symbol-errors",
        /// Effective bit error rate of a port.
        LinkBer = "link-ber",
        /// Times that a port's link went down.
        IbLinkDowned = "ib-link-downed",
        /// Buffer overruns of a port.
        IbBufferOverruns = "ib-buffer-overruns",
        /// Local link integrity errors of a port.
        IbLinkIntegrity = "ib-link-integrity",
        /// Receiver-not-ready retries that ran out.
        IbRnrNakRetry = "ib-rnr-nak-retry",
        /// Link error recoveries of a port.
        IbLinkRecovery = "ib-link-recovery",
        /// Packets received with an error.
        IbReceiveErrors = "ib-receive-errors",
        /// Packets that a port could not send.
        IbTransmitDiscards = "ib-transmit-discards",
        /// RoCE slow restarts.
        RoceSlowRestart = "roce-slow-restart",
        /// Acknowledgements that did not come in time.
        IbAckTimeouts = "ib-ack-timeouts",
        /// Changes of an Ethernet carrier.
        CarrierChanges = "carrier-changes",
        /// Network adapters that are present.
        NicCount = "nic-count",
        /// PCIe lanes of a network adapter.
        NicPcieWidth = "nic-pcie-width",
        /// Valid RoCE address entries of a port.
        NicGids = "nic-gids",
        /// NCCL all-reduce, bus bandwidth in GB/s.
        TestNccl = "test-nccl",
        /// GPUDirect RDMA in Gb/s.
        TestGdr = "test-gdr",
        /// Host to GPU copy in GB/s.
        TestHostToDevice = "test-host-to-device",
        /// GPU to GPU copy in GB/s.
        TestPeerToPeer = "test-peer-to-peer",
        /// STREAM triad in MB/s.
        TestStream = "test-stream",
        /// Matrix multiplication in TFLOP/s.
        TestGemm = "test-gemm",
        /// Results that differ from the known answer.
        TestMismatches = "test-mismatches",
        /// Checks of a burn-in or stress test that failed.
        TestFailures = "test-failures",
        /// Seconds of one training step on one rank.
        StepTime = "step-time",
        /// Corrected memory errors of the host.
        EdacCorrected = "edac-corrected",
        /// Uncorrected memory errors of the host.
        EdacUncorrected = "edac-uncorrected",
        /// NVMe: percentage of its life used.
        NvmeUsed = "nvme-used",
        /// NVMe: percentage of spare blocks left; expected is the drive's threshold.
        NvmeSpare = "nvme-spare",
        /// NVMe drives that are present.
        NvmeCount = "nvme-count",
        /// Mounts that became read-only.
        MountsReadOnly = "mounts-read-only",
        /// Processes killed because the whole node ran out of memory.
        OomKills = "oom-kills",
        /// Share of the file handles in use.
        FileHandles = "file-handles",
        /// Seconds that a probe of a network file system has gone unanswered.
        MountProbeAge = "mount-probe-age",
        /// Difference to the time source in seconds, without its sign.
        ClockOffset = "clock-offset",
        /// Settings or versions that differ from the profile.
        DriftFirmware = "drift-firmware",
        /// Drivers or kernels that differ from the image.
        DriftDriver = "drift-driver",
        /// BIOS settings that differ from the profile.
        DriftBios = "drift-bios",
        /// Seconds since the node's Lease was renewed.
        HeartbeatAge = "heartbeat-age",
        /// Seconds since the kubelet's metrics were read.
        KubeletAge = "kubelet-age",
        /// Seconds since the node agent reported.
        AgentAge = "agent-age",
        /// Seconds since the BMC answered.
        BmcAge = "bmc-age",
        /// State of a leak detector.
        SensorLeak = "sensor-leak",
        /// State of a fan.
        SensorFan = "sensor-fan",
        /// State of the fans' redundancy.
        SensorFanRedundancy = "sensor-fan-redundancy",
        /// State of a power supply.
        SensorPsu = "sensor-psu",
        /// State of the power supplies' redundancy.
        SensorPsuRedundancy = "sensor-psu-redundancy",
        /// State of the air inlet's temperature.
        SensorInlet = "sensor-inlet",
        /// State of another temperature.
        SensorThermal = "sensor-thermal",
        /// State of the mainboard.
        SensorBoard = "sensor-board",
        /// State of the clock's battery.
        SensorBattery = "sensor-battery",
        /// State of a processor's configuration.
        SensorCpu = "sensor-cpu",
        /// State of a riser card.
        SensorRiser = "sensor-riser",
        /// State of a RAID or storage controller.
        SensorStorage = "sensor-storage",
        /// A person has taken the machine out.
        OutOfService = "out-of-service",
    }
}

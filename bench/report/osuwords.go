package report

// osuWords are the texts that differ between the tables. The title begins with the words that
// parsers look for; theirs is "# OSU.*Test (?P<ver>v[0-9\.]+)".
type osuWords struct {
	title     string
	columns   []string
	bandwidth bool // MB/s, 10⁶ bytes per second; else µs, one way
	// collective: an empty line comes first, and there may be columns for the fastest and the
	// slowest rank. sizeless: there is no column of sizes.
	collective, sizeless bool
	// overlap: the columns are those of a non-blocking collective.
	overlap bool
	// datatype is that of a one-sided table, in the form of OSU 7.4.
	datatype string
}

// osuTables has the tables by the names of OSU's programs without "osu_".
var osuTables = map[string]osuWords{
	"latency": {title: "Latency", columns: []string{"Latency (us)"}},
	"bw":      {title: "Bandwidth", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},
	"bibw":    {title: "Bi-Directional Bandwidth", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},
	"mbw_mr": {title: "Multiple Bandwidth / Message Rate", columns: []string{"MB/s", "Messages/s"},
		bandwidth: true},
	"multi_lat":          {title: "Multi Latency", columns: []string{"Latency (us)"}},
	"latency_mt":         {title: "Multi-threaded Latency", columns: []string{"Latency (us)"}},
	"latency_persistent": {title: "Latency Persistent", columns: []string{"Latency (us)"}},
	"bw_persistent":      {title: "Bandwidth Persistent", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},
	"bibw_persistent":    {title: "Bi-Directional Bandwidth Persistent", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},
	"bw_fan_in":          {title: "Bandwidth", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},
	"bw_fan_out":         {title: "Bandwidth", columns: []string{"Bandwidth (MB/s)"}, bandwidth: true},

	"barrier":              {title: "Barrier Latency", columns: []string{"Avg Latency(us)"}, collective: true, sizeless: true},
	"bcast":                collectiveTable("Broadcast Latency"),
	"allreduce":            collectiveTable("Allreduce Latency"),
	"reduce":               collectiveTable("Reduce Latency"),
	"gather":               collectiveTable("Gather Latency"),
	"scatter":              collectiveTable("Scatter Latency"),
	"allgather":            collectiveTable("Allgather Latency"),
	"alltoall":             collectiveTable("All-to-All Personalized Exchange Latency"),
	"allgatherv":           collectiveTable("Allgatherv Latency"),
	"gatherv":              collectiveTable("Gatherv Latency"),
	"scatterv":             collectiveTable("Scatterv Latency"),
	"alltoallv":            collectiveTable("All-to-Allv Personalized Exchange Latency"),
	"alltoallw":            collectiveTable("All-to-Allw Personalized Exchange Latency"),
	"reduce_scatter":       collectiveTable("Reduce_scatter Latency"),
	"reduce_scatter_block": collectiveTable("Reduce_scatter_block Latency"),
	"scan":                 collectiveTable("Scan Latency"),
	"exscan":               collectiveTable("Exscan Latency"),

	"ibarrier":    overlapTable("Non-blocking Barrier Latency", ""),
	"ibcast":      overlapTable("Non-Blocking Broadcast Latency", "MPI_CHAR"),
	"iallreduce":  overlapTable("Non-blocking Allreduce Latency", "MPI_INT"),
	"ireduce":     overlapTable("Non-blocking Reduce Latency", "MPI_INT"),
	"igather":     overlapTable("Non-blocking Gather Latency", "MPI_CHAR"),
	"igatherv":    overlapTable("Non-blocking Gatherv Latency", "MPI_CHAR"),
	"iscatter":    overlapTable("Non-blocking Scatter Latency", "MPI_CHAR"),
	"iscatterv":   overlapTable("Non-blocking Scatterv Latency", "MPI_CHAR"),
	"iallgather":  overlapTable("Non-blocking Allgather Latency", "MPI_CHAR"),
	"iallgatherv": overlapTable("Non-blocking Allgatherv Latency", "MPI_CHAR"),
	"ialltoall":   overlapTable("Non-blocking All-to-All Latency", "MPI_CHAR"),
	"ialltoallv":  overlapTable("Non-blocking All-to-Allv Latency", "MPI_CHAR"),
	"ialltoallw":  overlapTable("Non-blocking All-to-Allw Latency", "MPI_CHAR"),

	"ireduce_scatter":       overlapTable("Non-blocking Reduce_scatter Latency", "MPI_INT"),
	"ireduce_scatter_block": overlapTable("Non-blocking Reduce_scatter_block Latency", "MPI_INT"),

	"neighbor_allgather":   collectiveTable("Neighborhood Allgather Latency"),
	"neighbor_allgatherv":  collectiveTable("Neighborhood Allgatherv Latency"),
	"neighbor_alltoall":    collectiveTable("Neighborhood Alltoall Latency"),
	"neighbor_alltoallv":   collectiveTable("Neighborhood Alltoallv Latency"),
	"neighbor_alltoallw":   collectiveTable("Neighborhood Alltoallw Latency"),
	"ineighbor_allgather":  overlapTable("Non-blocking Neighborhood Allgather Latency", "MPI_CHAR"),
	"ineighbor_allgatherv": overlapTable("Non-blocking Neighborhood Allgatherv Latency", "MPI_CHAR"),
	"ineighbor_alltoall":   overlapTable("Non-blocking Neighborhood Alltoall Latency", "MPI_CHAR"),
	"ineighbor_alltoallv":  overlapTable("Non-blocking Neighborhood Alltoallv Latency", "MPI_CHAR"),
	"ineighbor_alltoallw":  overlapTable("Non-blocking Neighborhood Alltoallw Latency", "MPI_CHAR"),

	"barrier_persistent":              {title: "Barrier Persistent Latency", columns: []string{"Avg Latency(us)"}, collective: true, sizeless: true},
	"bcast_persistent":                collectiveTable("Broadcast Persistent Latency"),
	"allreduce_persistent":            collectiveTable("Allreduce Persistent Latency"),
	"reduce_persistent":               collectiveTable("Reduce Persistent Latency"),
	"gather_persistent":               collectiveTable("Gather Persistent Latency"),
	"gatherv_persistent":              collectiveTable("Gatherv Persistent Latency"),
	"scatter_persistent":              collectiveTable("Scatter Persistent Latency"),
	"scatterv_persistent":             collectiveTable("Scatterv Persistent Latency"),
	"allgather_persistent":            collectiveTable("Allgather Persistent Latency"),
	"allgatherv_persistent":           collectiveTable("Allgatherv Persistent Latency"),
	"alltoall_persistent":             collectiveTable("All-to-All Personalized Exchange Persistent Latency"),
	"alltoallv_persistent":            collectiveTable("All-to-Allv Personalized Exchange Persistent Latency"),
	"reduce_scatter_persistent":       collectiveTable("Reduce_scatter Persistent Latency"),
	"reduce_scatter_block_persistent": collectiveTable("Reduce_scatter_block Persistent Latency"),

	"put_latency":     oneSidedLatency("Put Latency", "MPI_CHAR"),
	"get_latency":     oneSidedLatency("Get latency", "MPI_CHAR"),
	"put_bw":          oneSidedBandwidth("Put Bandwidth"),
	"get_bw":          oneSidedBandwidth("Get Bandwidth"),
	"put_bibw":        oneSidedBandwidth("Put Bi-directional Bandwidth"),
	"acc_latency":     oneSidedLatency("Accumulate latency", "MPI_CHAR"),
	"get_acc_latency": oneSidedLatency("Get_accumulate latency", "MPI_CHAR"),
	"fop_latency":     oneSidedLatency("Fetch_and_op latency", "MPI_INT64_T"),
	"cas_latency":     oneSidedLatency("Compare_and_swap latency", "MPI_INT64_T"),
}

func overlapTable(title, datatype string) osuWords {
	return osuWords{title: title, collective: true, overlap: true, sizeless: datatype == "", datatype: datatype}
}

func collectiveTable(title string) osuWords {
	return osuWords{title: title, columns: []string{"Avg Latency(us)"}, collective: true}
}

func oneSidedLatency(title, datatype string) osuWords {
	return osuWords{title: title, columns: []string{"Latency (us)"}, datatype: datatype}
}

func oneSidedBandwidth(title string) osuWords {
	return osuWords{title: title, columns: []string{"Bandwidth (MB/s)"}, bandwidth: true, datatype: "MPI_CHAR"}
}

// osuCreations and osuSyncs are OSU's words for the options of windows.
var (
	osuCreations = map[string]string{"create": "MPI_Win_create", "allocate": "MPI_Win_allocate"}
	osuSyncs     = map[string]string{
		"lock": "MPI_Win_lock/unlock", "pscw": "MPI_Win_post/start/complete/wait", "fence": "MPI_Win_fence",
		"flush": "MPI_Win_flush", "flush_local": "MPI_Win_flush_local", "lock_all": "MPI_Win_lock_all/unlock_all",
	}
)

//go:build launchers

// This test needs the right to make network namespaces, and ip of iproute2.

package rendezvous

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pod is a process in one of them.
type pod struct {
	*exec.Cmd
	out bytes.Buffer
}

// pods are network namespaces that stand for pods, joined by a bridge in one
// more, where the name server is.
type pods struct {
	t    *testing.T
	hub  string
	name []string
}

func (p *pods) ip(args ...string) {
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(p.t, err, "ip %v: %s", args, out)
}

// namespace makes one that ends with the test.
func (p *pods) namespace(suffix string) string {
	name := fmt.Sprintf("bny-sec-%d-%s", os.Getpid(), suffix)
	p.ip("netns", "add", name)
	p.t.Cleanup(func() { p.ip("netns", "del", name) })
	p.ip("-n", name, "link", "set", "lo", "up")
	return name
}

const (
	hubAddr = "10.97.0.1"
	podAddr = "10.97.0.1%d"
	domain  = "default.svc.cluster.local"
)

// startPods makes n of them, with the files that a kubelet puts into pods of a
// Job with a subdomain.
func startPods(t *testing.T, n int, job, subdomain string) *pods {
	p := &pods{t: t}
	p.hub = p.namespace("hub")
	p.ip("-n", p.hub, "link", "add", "br0", "type", "bridge")
	p.ip("-n", p.hub, "addr", "add", hubAddr+"/24", "dev", "br0")
	p.ip("-n", p.hub, "link", "set", "br0", "up")
	for i := range n {
		name, addr, port := p.namespace(fmt.Sprint(i)), fmt.Sprintf(podAddr, i), fmt.Sprintf("pod%d", i)
		p.ip("-n", p.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
		p.ip("-n", p.hub, "link", "set", port, "master", "br0", "up")
		p.ip("-n", name, "addr", "add", addr+"/24", "dev", "eth0")
		p.ip("-n", name, "link", "set", "eth0", "up")
		etc := filepath.Join("/etc/netns", name)
		require.NoError(t, os.MkdirAll(etc, 0o755))
		t.Cleanup(func() { _ = os.RemoveAll(etc); _ = os.Remove("/etc/netns") })
		host := fmt.Sprintf("%s-%d", job, i)
		for file, text := range map[string]string{
			"hosts":       fmt.Sprintf("127.0.0.1 localhost\n%s %s.%s.%s %s\n", addr, host, subdomain, domain, host),
			"resolv.conf": "nameserver " + hubAddr + "\nsearch " + domain + " svc.cluster.local cluster.local\noptions ndots:5\n",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(etc, file), []byte(text), 0o644))
		}
		p.name = append(p.name, name)
	}
	return p
}

// listenPacket opens a UDP socket in the namespace of the name server.
func (p *pods) listenPacket(addr string) net.PacketConn {
	f, err := os.Open("/run/netns/" + p.hub)
	require.NoError(p.t, err)
	defer f.Close()
	type end struct {
		conn net.PacketConn
		err  error
	}
	ends := make(chan end)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in its namespace
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			ends <- end{err: err}
			return
		}
		conn, err := net.ListenPacket("udp", addr)
		ends <- end{conn, err}
	}()
	e := <-ends
	require.NoError(p.t, e.err)
	return e.conn
}

// The pods of docs/kubernetes.yaml start, rank 0 last; its name does not resolve at first, and then
// for a while to an address that is not in use any more.
func TestLaunchersKubernetes(t *testing.T) {
	service, job := readManifest(t)
	n := job.Spec.Completions
	bin, secrets := t.TempDir(), t.TempDir()
	out, err := exec.Command("go", "build", "-o", bin, "../../../examples/ring").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(secrets, "secret"), []byte(sixteen), 0o440))

	p := startPods(t, n, job.Metadata.Name, service.Metadata.Name)
	var answers [][]string
	for turn := range 8 * n {
		answers = append(answers, map[bool][]string{true: nobody, false: {"10.97.0.99"}}[turn < 4*n])
	}
	answers = append(answers, []string{fmt.Sprintf(podAddr, 0)})
	dns := serveName(t, p.listenPacket(hubAddr+":53"), fmt.Sprintf("%s-0.%s.%s.", job.Metadata.Name, service.Metadata.Name, domain), answers...)

	var ranks []*pod
	for i := n - 1; i >= 0; i-- {
		command := job.Spec.Template.Spec.Containers[0].Command
		argv := append([]string{"netns", "exec", p.name[i], filepath.Join(bin, command[0])}, command[1:]...)
		s := &pod{Cmd: exec.Command("ip", argv...)}
		s.Env = append([]string{"PATH=" + os.Getenv("PATH"), "BANYAN_FABRIC=tcp"}, job.podEnv(t, i, secrets)...) // pods see nothing of each other but the network
		s.Stdout, s.Stderr = &s.out, &s.out
		require.NoError(t, s.Start())
		t.Cleanup(func() { _ = s.Process.Kill() })
		ranks = append(ranks, s)
	}
	said := ""
	for _, s := range ranks {
		require.NoError(t, s.Wait(), s.out.String())
		said += regexp.MustCompile(`(?m)^banyan: rank \d+ waits for .*\n`).ReplaceAllString(s.out.String(), "")
	}
	require.Equal(t, "the token came back with 6, the sum of 4 ranks is 6\n", said)
	require.Greater(t, dns.turns(), len(answers)-1)
}

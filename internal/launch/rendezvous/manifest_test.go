package rendezvous

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// manifest is the part of docs/kubernetes.yaml that these tests need.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		Selector                 map[string]string
		CompletionMode           string `yaml:"completionMode"`
		Completions, Parallelism int
		Template                 struct {
			Spec struct {
				Subdomain  string
				Containers []struct {
					Command []string
					Env     []struct {
						Name, Value string
						ValueFrom   struct {
							FieldRef struct {
								FieldPath string `yaml:"fieldPath"`
							} `yaml:"fieldRef"`
						} `yaml:"valueFrom"`
					}
					VolumeMounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name   string
					Secret struct {
						DefaultMode uint32 `yaml:"defaultMode"`
					}
				}
			}
		}
	}
}

const indexAnnotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

// readManifest returns the Service and the Job.
func readManifest(t *testing.T) (service, job manifest) {
	f, err := os.Open("../../../docs/kubernetes.yaml")
	require.NoError(t, err)
	defer f.Close()
	d := yaml.NewDecoder(f)
	require.NoError(t, d.Decode(&service))
	require.NoError(t, d.Decode(&job))
	require.Equal(t, []string{"Service", "Job"}, []string{service.Kind, job.Kind})
	return service, job
}

// podEnv is the environment of pod i of a Job, with the files of its secret in
// another folder.
func (m manifest) podEnv(t *testing.T, i int, secrets string) (env []string) {
	c := m.Spec.Template.Spec.Containers[0]
	for _, e := range c.Env {
		value := e.Value
		switch from := e.ValueFrom.FieldRef.FieldPath; from {
		case "":
		case indexAnnotation:
			value = strconv.Itoa(i)
		default:
			t.Fatalf("%s comes from %s", e.Name, from)
		}
		env = append(env, e.Name+"="+strings.Replace(value, c.VolumeMounts[0].MountPath, secrets, 1))
	}
	return env
}

// The parts of the manifest fit each other, and a rank accepts a pod's environment and secret.
func TestKubernetesManifest(t *testing.T) {
	service, job := readManifest(t)
	require.Equal(t, "None", service.Spec.ClusterIP)
	require.True(t, service.Spec.PublishNotReadyAddresses)
	require.Equal(t, job.Metadata.Name, service.Spec.Selector["batch.kubernetes.io/job-name"])
	require.Equal(t, "Indexed", job.Spec.CompletionMode)
	pod := job.Spec.Template.Spec
	require.Equal(t, service.Metadata.Name, pod.Subdomain)
	require.Equal(t, pod.Volumes[0].Name, pod.Containers[0].VolumeMounts[0].Name)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(sixteen), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "secret"), fs.FileMode(pod.Volumes[0].Secret.DefaultMode)))
	for i := range job.Spec.Completions {
		env := map[string]string{}
		for _, e := range job.podEnv(t, i, dir) {
			name, value, _ := strings.Cut(e, "=")
			env[name] = value
		}
		p, ok, err := FromEnvironment(func(n string) (string, bool) { v, ok := env[n]; return v, ok })
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, i, p.Rank)
		require.Equal(t, job.Spec.Completions, p.Size)
		require.Equal(t, job.Spec.Parallelism, p.Size)
		require.Equal(t, job.Metadata.Name+"-0."+service.Metadata.Name+":29500", p.Addr)
		_, err = ReadSecret(env[SecretFileEnv])
		require.NoError(t, err)
	}
}

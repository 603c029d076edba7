package realnodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/node-drainer/node-drainer/test/cluster"
	"github.com/node-drainer/node-drainer/test/realnodes/record"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

// SentinelService creates a Service for the pods of a workload that are sentinels, and returns its address.
func SentinelService(ctx context.Context, c *cluster.Cluster, namespace, name string) (address string, err error) {
	return service(ctx, c, namespace, name, corev1.ServicePort{Port: redisserver.SentinelPort})
}

// RedisMember has the pods of a workload be members of a group of Redis servers, which sentinels watch. They have no
// data when they start.
func RedisMember(sentinels string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		config := redisserver.ServerConfig() + "replica-announce-ip $POD_IP\n" +
			fmt.Sprintf("replicaof $LEADER %d\n", redisserver.Port)
		emptyData(t)
		redis(t, redisserver.Port, config, "-ask="+sentinels, "-master="+redisserver.Master)
	}
}

// RedisSentinel has the pods of a workload be as many sentinels, which have no data when they start.
func RedisSentinel(sentinels string, count int) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		config := "sentinel announce-ip $POD_IP\n" + redisserver.SentinelConfig("$LEADER", count/2+1)
		emptyData(t)
		redis(t, redisserver.SentinelPort, config, "-ask="+sentinels, "-master="+redisserver.Master, "-as=redis-sentinel")
	}
}

// RedisCluster has the pods of a workload be nodes of a Redis Cluster. Each has its data in a volume that follows it.
func RedisCluster(t *corev1.PodTemplateSpec) {
	mount(t, "disks", Disks(), record.Disks)
	config := redisserver.ServerConfig() + redisserver.ClusterConfig() + "cluster-announce-ip $POD_IP\n"
	redis(t, redisserver.Port, config, "-data="+record.Disks)
}

func emptyData(t *corev1.PodTemplateSpec) {
	Mount(t, "data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "/data")
}

// redis has the pods of a template run a server that listens on a port; see the command redis of the workload.
func redis(t *corev1.PodTemplateSpec, port int32, config string, flags ...string) {
	c := run(t, append([]string{"redis"}, flags...))
	c.Image = redisImage
	c.Env = append(c.Env, corev1.EnvVar{Name: "CONFIG", Value: config}, corev1.EnvVar{
		Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
	})
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}},
		PeriodSeconds: 1,
	}
}

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

const (
	memberTimeout = 2 * time.Second
	maxLag        = 1000 // entries of the log that a member in sync may lack
)

// member is a pod, and what its etcd says.
type member struct {
	Metadata struct{ Name, UID, DeletionTimestamp string }
	Spec     struct{ NodeName string }
	Status   struct{ PodIP string }

	Header struct {
		ID string `json:"member_id"` // empty if it does not answer
	}
	Leader    string // an ID; empty if it knows none
	IsLearner bool
	Index     uint64 `json:"raftIndex,string"`
	Applied   uint64 `json:"raftAppliedIndex,string"`
	Errors    []string
}

// problem returns why a member cannot lead, nor be one of a majority without self; empty if it can.
func (m *member) problem(self *member) string {
	switch {
	case m.Header.ID == "":
		return "does not answer"
	case m.Metadata.DeletionTimestamp != "":
		return "is being deleted"
	case len(m.Errors) > 0:
		return "reports " + m.Errors[0]
	case m.Leader == "" || m.Leader != self.Leader:
		return "does not follow the leader of " + self.Metadata.Name
	case m.IsLearner || m.Applied+maxLag < self.Index:
		return "is not in sync"
	}
	return ""
}

// members returns the member whose pod has the UID, or nil, and all others that etcd knows, even without a pod.
func (s service) members(ctx context.Context, uid string) (self *member, others []*member, err error) {
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, nil, err
	}
	var asked sync.WaitGroup
	for _, m := range pods {
		if m.Metadata.UID == uid {
			self = m
		}
		asked.Go(func() { _ = m.etcd(ctx, "maintenance/status", body{}, m) })
	}
	asked.Wait()
	if self == nil {
		return nil, nil, nil
	}
	var known struct{ Members []struct{ ID, Name string } }
	if err := self.etcd(ctx, "cluster/member/list", body{"linearizable": true}, &known); err != nil {
		return nil, nil, err
	}
	for _, k := range known.Members {
		other := &member{}
		other.Metadata.Name = "member " + k.Name
		for _, m := range pods {
			if m.Header.ID == k.ID {
				other = m
			}
		}
		if other != self {
			others = append(others, other)
		}
	}
	return self, others, nil
}

// pods lists the pods of the members. The token is read each time, because the kubelet replaces it.
func (s service) pods(ctx context.Context) ([]*member, error) {
	token, err := os.ReadFile(s.account + "/token")
	namespace, err2 := os.ReadFile(s.account + "/namespace")
	authority, err3 := os.ReadFile(s.account + "/ca.crt")
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{
		Scheme: "https", Host: net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")),
		Path:     "/api/v1/namespaces/" + string(namespace) + "/pods",
		RawQuery: url.Values{"labelSelector": {s.selector}}.Encode(),
	}).String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+string(token))
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(authority)
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	var list struct{ Items []*member }
	err = send(&client, r, &list)
	return list.Items, err
}

// body is that of a request to etcd.
type body map[string]any

// etcd calls a method of the JSON API of a member.
func (m *member) etcd(ctx context.Context, method string, in body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	address := "http://" + net.JoinHostPort(m.Status.PodIP, "2379") + "/v3/" + method
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	return send(http.DefaultClient, r, out)
}

func send(client *http.Client, r *http.Request, out any) error {
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return fmt.Errorf("%s: %s: %s", r.URL.Path, response.Status, text)
	}
	return json.NewDecoder(response.Body).Decode(out)
}

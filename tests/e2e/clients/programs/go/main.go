// Produces and consumes with sarama, as it is or with a configured version, or with kafka-go.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/Shopify/sarama"
	"github.com/segmentio/kafka-go"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	library, bootstrap, topic, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	seconds, err := strconv.Atoi(os.Args[5])
	must(err)
	time.AfterFunc(time.Duration(2*seconds)*time.Second, func() { must(fmt.Errorf("no answer")) })
	switch library {
	case "sarama":
		withSarama(bootstrap, topic, name, "")
	case "kafka-go":
		withKafkaGo(bootstrap, topic, name)
	default:
		withSarama(bootstrap, topic, name, library)
	}
}

func withSarama(bootstrap, topic, name, version string) {
	config := sarama.NewConfig()
	config.ClientID = name
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max, config.Metadata.Retry.Max = 1, 1
	if version != "" {
		parsed, err := sarama.ParseKafkaVersion(version)
		must(err)
		config.Version = parsed
	}
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	must(err)
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("value")})
	must(err)
	fmt.Println("produced")
	consumer, err := sarama.NewConsumer([]string{bootstrap}, config)
	must(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	must(err)
	<-partition.Messages()
	fmt.Println("consumed")
}

func withKafkaGo(bootstrap, topic, name string) {
	dialer := &kafka.Dialer{ClientID: name, Timeout: 5 * time.Second}
	writer := kafka.NewWriter(kafka.WriterConfig{
		Brokers: []string{bootstrap}, Topic: topic, Dialer: dialer, MaxAttempts: 1, BatchTimeout: 10 * time.Millisecond,
	})
	must(writer.WriteMessages(context.Background(), kafka.Message{Value: []byte("value")}))
	fmt.Println("produced")
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, GroupID: name, Dialer: dialer,
	})
	_, err := reader.ReadMessage(context.Background())
	must(err)
	fmt.Println("consumed")
}

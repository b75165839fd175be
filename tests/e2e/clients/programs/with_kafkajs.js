// Produces and consumes with the KafkaJS beside which it runs.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, name, seconds] = process.argv.slice(2)
const within = (promise, what) => Promise.race([promise, new Promise((_, reject) => setTimeout(() => reject(new Error(what)), seconds * 1000))])

async function main() {
  const kafka = new Kafka({ clientId: name, brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { retries: 1 } })
  const producer = kafka.producer()
  await within(producer.connect(), 'not connected')
  await within(producer.send({ topic, acks: -1, messages: [{ value: 'value' }] }), 'not produced')
  console.log('produced')
  const consumer = kafka.consumer({ groupId: name })
  await within(consumer.connect(), 'not connected')
  await consumer.subscribe({ topic, fromBeginning: true })
  await within(new Promise((resolve, reject) => consumer.run({ eachMessage: async () => resolve() }).catch(reject)), 'not consumed')
  console.log('consumed')
}

main().then(() => process.exit(0), error => { console.error(String(error)); process.exit(1) })

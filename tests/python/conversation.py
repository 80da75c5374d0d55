"""The official Python client in a conversation with the simulated radio.

Prints one JSON object a line: what it received, and what became of what it sent. The test that runs
it judges. Arguments: PORT, then the texts to answer with.
"""

import json
import sys
import threading
import time

from meshtastic.protobuf import portnums_pb2
from meshtastic.tcp_interface import TCPInterface
from pubsub import pub

# A client that hangs must not outlive the test by much.
GIVE_UP = 60.0


def say(**what):
    print(json.dumps(what), flush=True)


def main():
    port, answers = int(sys.argv[1]), sys.argv[2:]
    heard = threading.Semaphore(0)
    senders = []

    def on_text(packet, interface):
        senders.append(packet["fromId"])
        say(
            event="text",
            id=packet["id"],
            sender=packet["fromId"],
            text=packet["decoded"]["text"],
            pki=packet.get("pkiEncrypted", False),
            key=packet.get("publicKey"),
            channel=packet.get("channel", 0),
            hop_start=packet.get("hopStart", 0),
            hop_limit=packet.get("hopLimit", 0),
        )
        heard.release()

    pub.subscribe(on_text, "meshtastic.receive.text")
    interface = TCPInterface("127.0.0.1", portNumber=port)
    say(event="ready", nodes=sorted(interface.nodes), me=interface.getMyNodeInfo()["user"]["id"])

    for answer in answers:
        if not heard.acquire(timeout=GIVE_UP):
            say(event="gave up")
            return 1
        done = threading.Event()

        def on_ack(packet, done=done):
            routing = packet["decoded"]["routing"]
            say(event="ack", sender=packet["from"], reason=routing["errorReason"])
            done.set()

        sent = interface.sendData(
            answer.encode(),
            destinationId=senders[-1],
            portNum=portnums_pb2.PortNum.TEXT_MESSAGE_APP,
            wantAck=True,
            onResponse=on_ack,
            onResponseAckPermitted=True,
        )
        say(event="sent", id=sent.id)
        if not done.wait(GIVE_UP):
            say(event="gave up")
            return 1
        # The radio drops texts that follow each other within 2 s.
        time.sleep(2.3)
    interface.close()
    say(event="closed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

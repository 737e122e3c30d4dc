# does: StatefulDataLoader, resumed in the middle of an epoch
# needs: torch torchdata
from files import BATCH, EPOCHS, WORKERS, Files, train
from torchdata.stateful_dataloader import StatefulDataLoader


def loader() -> StatefulDataLoader:
    return StatefulDataLoader(Files(), BATCH, shuffle=True, num_workers=WORKERS)


first = loader()
train(first, EPOCHS - 1)
for step, _ in enumerate(first):
    if step == 20:
        break
state = first.state_dict()
del first
second = loader()
second.load_state_dict(state)
train(second, 2)

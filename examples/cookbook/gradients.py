# gradients: compares the gradients that gradients.c wrote to grads.safetensors with PyTorch's
import torch
from torch import nn

from safetensors_file import load_file  # or: from safetensors.torch import load_file

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 3, bidirectional=True, batch_first=True)
        self.tag = nn.Linear(6, 3)

    def forward(self, sentence):
        return self.tag(self.lstm(self.words(sentence))[0])

net = Tagger()
net.load_state_dict(load_file("tagger.safetensors"))
logits = net(torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]]))[0]
loss = nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]))
loss.backward()
ours = load_file("grads.safetensors")
differ = [(ours[name] - p.grad).abs().max() / p.grad.abs().max() for name, p in net.named_parameters()]
print(f"loss {loss.item():.5f}, largest difference {max(differ).item():.1e} of the largest gradient")
assert max(differ) < 1e-5

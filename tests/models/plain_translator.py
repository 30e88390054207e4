"""The translator again, in plain PyTorch with none of sdrop's code, sentence by sentence."""

import torch
from torch import nn
from torch.nn import functional as F


class PlainTranslator(nn.Module):
    """Reads the weights of a `sdrop.models.Translator` and computes its loss without dropout."""

    def __init__(self, sizes, source_words, target_words):
        super().__init__()
        self.sizes = sizes
        width = sizes.encoder_size * sizes.directions
        self.source_embedding = nn.Embedding(source_words, sizes.embedding_dim)
        self.target_embedding = nn.Embedding(target_words, sizes.embedding_dim)
        self.encoder = nn.LSTM(
            sizes.embedding_dim,
            sizes.encoder_size,
            sizes.encoder_layers,
            bidirectional=sizes.bidirectional,
        )
        self.decoder = nn.Module()
        hidden = sizes.hidden_size
        if sizes.input_feeding:
            inputs = [sizes.embedding_dim + hidden] + [hidden] * (sizes.num_layers - 1)
            self.decoder.cells = nn.ModuleList(nn.LSTMCell(size, hidden) for size in inputs)
        else:
            self.decoder.lstm = nn.LSTM(sizes.embedding_dim, hidden, sizes.num_layers)
        attention = self.decoder.attention = nn.Module()
        if sizes.attention != "dot":
            attention.key = nn.Linear(width, hidden, bias=False)
        if sizes.attention == "concat":
            attention.query = nn.Linear(hidden, hidden, bias=False)
            attention.energy = nn.Linear(hidden, 1, bias=False)
        if sizes.scaled_attention:
            attention.scale = nn.Parameter(torch.ones(()))
        attention.output = nn.Linear(width + hidden, hidden, bias=False)
        self.generator = nn.Linear(hidden, target_words)
        if sizes.tie_weights:
            self.target_embedding.weight = self.generator.weight

    def forward(self, source, source_lengths, input, target):
        """The mean loss of the counted words."""
        losses = [
            self.sentence_losses(source[:length, n], input[:, n], target[:, n])
            for n, length in enumerate(source_lengths.tolist())
        ]
        return torch.cat(losses).mean()

    def sentence_losses(self, source, input, target):
        """The loss of each counted word of one sentence, without batch or padding."""
        counted = target != -100
        scores = self.scores(source, input[counted])
        return F.cross_entropy(scores, target[counted], reduction="none")

    def scores(self, source, input):
        """Scores of the word after each of `input`. # shape: (T, V)"""
        values, (h, c) = self.encoder(self.source_embedding(source))
        h, c = (state.reshape(self.sizes.num_layers, self.sizes.hidden_size) for state in (h, c))
        words = self.target_embedding(input)
        if not self.sizes.input_feeding:
            hidden, _ = self.decoder.lstm(words, (h, c))
            return self.generator(torch.stack([self.attend(each, values) for each in hidden]))
        states, fed, outputs = list(zip(h, c, strict=True)), torch.zeros_like(h[0]), []
        for word in words:
            below = torch.cat([word, fed])
            for layer, cell in enumerate(self.decoder.cells):
                states[layer] = cell(below, states[layer])
                below = states[layer][0]
            fed = self.attend(below, values)
            outputs.append(fed)
        return self.generator(torch.stack(outputs))

    def attend(self, hidden, values):
        """The attentional output of one decoder state over one sentence."""
        attention, scores = self.decoder.attention, []
        for value in values:
            if self.sizes.attention == "dot":
                score = hidden @ value
            elif self.sizes.attention == "general":
                score = hidden @ attention.key(value)
            else:
                both = attention.query(hidden) + attention.key(value)
                score = attention.energy(torch.tanh(both)).squeeze()
            scores.append(score * attention.scale if self.sizes.scaled_attention else score)
        context = torch.softmax(torch.stack(scores), dim=0) @ values
        return torch.tanh(attention.output(torch.cat([context, hidden])))

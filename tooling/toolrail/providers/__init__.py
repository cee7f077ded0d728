"""Speak the tool formats of model providers: pure JSON in, JSON out, no SDK.

Is: the names an agent service imports. Is not: a client of any provider; the service keeps its own.
Above: agent services. Below: one file for each provider behind the port in `port.py`. A provider of
one's own is any object that fits `Provider`; nothing here has to know it.
"""

from toolrail.providers.anthropic import Anthropic
from toolrail.providers.conversation import Conversation
from toolrail.providers.decoding import DecodeContext
from toolrail.providers.gemini import Gemini
from toolrail.providers.gemini_interactions import GeminiInteractions
from toolrail.providers.mcp import MCP
from toolrail.providers.openai_chat import OpenAIChat
from toolrail.providers.openai_responses import OpenAIResponses
from toolrail.providers.port import Capabilities, Provider, Stream
from toolrail.providers.rendering import Media, image_shas
from toolrail.providers.toolbox import ToolBox, ToolOptions
from toolrail.providers.turn import Call, Native, Stop, Turn

__all__ = [
    "MCP",
    "Anthropic",
    "Call",
    "Capabilities",
    "Conversation",
    "DecodeContext",
    "Gemini",
    "GeminiInteractions",
    "Media",
    "Native",
    "OpenAIChat",
    "OpenAIResponses",
    "Provider",
    "Stop",
    "Stream",
    "ToolBox",
    "ToolOptions",
    "Turn",
    "image_shas",
]

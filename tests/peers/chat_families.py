"""Templates in the style of the families that models have, written for this test: each has the constructs
of its family (how it trims, checks turns, tells tools and dates), not its words."""

import chat_tool_families

CHATML = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

LLAMA_2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Turns must go user/assistant/user/assistant') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

LLAMA_3 = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start|>' + message['role'] + '<|end|>\n\n'+ message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|end|>\n\n' }}{% endif %}"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system role') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<turn>' + role + '\n' + message['content'] | trim + '</turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<turn>model\n'}}{% endif %}"""

GEMMA_3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '</turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<turn>model
'}}
{%- endif -%}
"""

PHI = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"""

PHI_TOOLS = """{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + (message['content'] or '')|string + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

SMOL = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are small<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

DEEPSEEK = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<User>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{'<Assistant><calls>' + (tool['type'] or '?') + '<sep>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|string + '\\n' + '```'}}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + tool['function']['name']}}{%- endif %}{%- endfor %}{%- elif message['role'] == 'assistant' and message['content'] is not none %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<Assistant>' + content + eos_token}}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<outputs><output>' + message['content'] + '</output>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n<output>' + message['content'] + '</output>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'</outputs>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<Assistant><think>\\n'}}{% endif %}"""

OLMO = """{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}"""

GRANITE = """{%- if messages[0]['role'] == 'system' %}
     {%- set system_message = messages[0]['content'] %}
     {%- set loop_messages = messages[1:] %}
{%- else %}
     {%- set system_message = "Cutoff: April 2024.\\nToday's Date: " + strftime_now('%B %d, %Y') + ".\\n" %}
     {%- if tools and documents %}
         {%- set system_message = system_message + "With tools and documents." %}
     {%- elif tools %}
         {%- set system_message = system_message + "With tools." %}
     {%- else %}
         {%- set system_message = system_message + "Alone." %}
     {%- endif %}
     {%- if 'citations' in controls and documents %}
         {%- set system_message = system_message + '\\n\\nCite.' %}
     {%- endif %}
     {%- set loop_messages = messages %}
{%- endif %}
{{- '<|role|>system<|/role|>' + system_message + '<|text|>\\n' }}
{%- if tools %}
     {{- '<|role|>tools<|/role|>' }}
     {{- tools | tojson(indent=4) }}
     {{- '<|text|>\\n' }}
{%- endif %}
{%- if documents %}
     {{- '<|role|>documents<|/role|>' }}
     {%- for document in documents %}
         {{- 'Document ' + loop.index0 | string + '\\n' }}
         {{- document['text'] }}
         {%- if not loop.last %}
              {{- '\\n\\n'}}
         {%- endif%}
     {%- endfor %}
     {{- '<|text|>\\n' }}
{%- endif %}
{%- for message in loop_messages %}
     {{- '<|role|>' + message['role'] + '<|/role|>' + (message['content'] | string) + '<|text|>\\n' }}
     {%- if loop.last and add_generation_prompt %}
         {{- '<|role|>assistant' }}
             {%- if controls %}
                 {{- ' ' + controls | tojson()}}
             {%- endif %}
         {{- '<|/role|>' }}
     {%- endif %}
{%- endfor %}"""

FALCON = """{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{{ message['role'].capitalize() }}: {{ message['content'] | trim | replace('\r\n', '\n') | replace('\n\n', '\n') }}{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'assistant'|title + ':' }}{% endif %}"""

FAMILIES = {name: text for name, text in {**globals(), **vars(chat_tool_families)}.items()
            if isinstance(text, str) and name.isupper()}


def call(name, arguments, more=None):
    return {"type": "function", "id": "abcdefghi", "function": {"name": name, "arguments": arguments}, **(more or {})}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


TOOLS = [
    {"type": "function", "function": {
        "name": "weather", "description": "Tells the weather, \"today\" <b>", "parameters": {
            "type": "object", "properties": {
                "city": {"type": "string", "description": "Where \u2014 in \u6f22\u5b57"},
                "days": {"type": "integer", "default": 3}, "unit": {"type": "string", "enum": ["C", "F"]},
                "more": {"type": "array", "items": {"type": "number"}}, "any": {"type": ["string", "null"]}},
            "required": ["city"]}, "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {
        "type": "object", "properties": {"at": {"type": "object"}}}}}]
CONVERSATIONS = [
    [turn("user", "Hi")],
    [turn("system", "Be \"brief\".\n"), turn("user", " What's <up>? \u00e9 \U0001f600\n\n")],
    [turn("user", "1"), turn("assistant", " one "), turn("user", "2\r\n\r\n3")],
    [turn("system", "S"), turn("user", "1"), turn("assistant", "<think>\nhm\n</think>\n\none"), turn("user", "2"),
     turn("assistant", "two"), turn("user", "{{ 3 }} {% if %}")],
    [turn("user", "1"), turn("user", "again")],
    [turn("user", "weather?"), turn("assistant", "", tool_calls=[call("weather", {"city": "K\u00f6ln", "days": 2})]),
     turn("tool", "sunny", tool_call_id="abcdefghi"), turn("assistant", "It is sunny."), turn("user", "Thanks")],
    [turn("system", "S"), turn("user", "w"), turn("assistant", None, tool_calls=[call("weather", {"city": "a"}), call("now", {})]),
     turn("tool", "1", tool_call_id="abcdefghi"), turn("tool", {"content": [1.5, None]}, tool_call_id="abcdefghi")],
    [turn("user", [{"type": "text", "text": " parts "}, {"type": "image"}]), turn("assistant", "seen", reasoning_content="\nlook\n")],
    [turn("system", [{"type": "text", "text": "listed"}]), turn("user", "x")],
    [turn("assistant", "I begin"), turn("user", "ok"), turn("strange", "role")],
    [],
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def orders():
    for text in FAMILIES.values():
        for messages in CONVERSATIONS:
            for prompt in (False, True):
                for more in ({}, {"tools": TOOLS}, {"documents": [{"title": "A", "text": "b"}, {"text": "c\n"}]},
                             {"tools": TOOLS, "tokens": {}},
                             {"more": {"enable_thinking": False, "builtin_tools": ["weather", "code_interpreter"],
                                       "controls": {"citations": True}, "tools_in_user_message": False},
                              "tools": TOOLS}):
                    yield {"template": text, "messages": messages, "prompt": prompt, "tokens": TOKENS, **more}

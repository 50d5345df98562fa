"""Templates in the style of the families that models have, written for this test: each has the constructs
of its family (how it trims, checks turns, tells tools and dates), not its words."""

CHATML = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

QWEN_TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You help.' }}
    {%- endif %}
    {{- "\\n\\n# Functions\\n<list>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</list>\\nAnswer as {\\"name\\": <name>, \\"arguments\\": <object>}<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<answer>\\n' }}
        {{- message.content }}
        {{- '\\n</answer>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

QWEN_THINKS = """{%- set ns = namespace(searching=true, last_asked=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<answer>') and message.content.endswith('</answer>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_asked = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_asked and (loop.last or (not loop.last and thoughts)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {{- '<call>' }}{% if tool_call.function %}{% set tool_call = tool_call.function %}{% endif %}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {%- if loop.previtem and loop.previtem.role == message.role %}{{- '~' }}{%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
        {%- if not loop.last and loop.nextitem.role == "tool" %}{{- '^' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

LLAMA_2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Turns must go user/assistant/user/assistant') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

LLAMA_3 = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start|>' + message['role'] + '<|end|>\n\n'+ message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|end|>\n\n' }}{% endif %}"""

LLAMA_31 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The first message may be the system's. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{{- "<|start|>system<|end|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}

{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No first user message to put the tools in.") }}
{%- endif %}
    {{- '<|start|>user<|end|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot|>"}}
{%- endif %}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("Only one call at a time.") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- "<|py|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- endif %}
                {%- endfor %}
            {{- ")" }}
        {%- else  %}
            {{- '{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start|>ipython<|end|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{#- Turns are counted without calls and their answers. #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, turns must go user/assistant/user/assistant") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
            {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Calls have ids of nine letters!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles, with the exception of an initial system message!") }}
    {%- endif %}
{%- endfor %}
"""

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

COMMAND_R = """{%- macro type_of(spec) -%}
{%- set known = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} -%}
{%- if known[spec.type] is defined -%}
    {{- known[spec.type] -}}
{%- elif spec.type == "array" -%}
    {{- "List[" + type_of(spec['items']) + "]" -}}
{%- elif spec.type == "object" -%}
    {%- if spec.additionalProperties is defined -%}
        {{- "Dict[str, " + type_of(spec.additionalProperties) + ']' -}}
    {%- else -%}
        {{- "Dict" -}}
    {%- endif -%}
{%- elif spec.type is iterable and spec.type is not string -%}
    {{- "Union[" -}}
    {%- for t in spec.type -%}
      {{- type_of({"type": t}) -}}
      {%- if not loop.last -%}{{- "," -}}{%- endif -%}
    {%- endfor -%}
    {{- "]" -}}
{%- else -%}
    {{- "Any" -}}
{%- endif -%}
{%- endmacro -%}
{%- macro signature(tool, name='tool') %}
def {{ tool.name or name }}({% for key, spec in tool.parameters.properties.items() %}{{ key }}: {{ type_of(spec) }}{% if key not in tool.parameters.required|default([]) %} = None{% endif %}{{ ", " if not loop.last }}{% endfor %}):
    {{ tool.description|default('no words', true) }}
{% endmacro -%}
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set preamble = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set preamble %}
You help {{ name|default('people') }}.
{% endset %}{% endif %}<|system|>{{ preamble|trim }}
{% for tool in tools or [] %}
{{ signature(tool.function) }}
{% endfor %}
{% for document in documents or [] %}
Document: {{ loop.index0 }}
{% for key, value in document.items() %}
{{ key }}: {{ value }}
{% endfor %}
{% else %}
No documents.
{% endfor %}
{% for message in rest %}{% if message.role == 'tool' %}{% continue %}{% endif %}
{{ '<|' ~ message.role|upper ~ '|>' }}{% generation %}{{ message.content if message.content is string else message.content|map(attribute='text')|select('defined')|join }}{% endgeneration %}
{% endfor %}
{%- if add_generation_prompt %}{{ '<|CHATBOT|>' }}{% endif %}"""

OSS = """{%- macro kind(spec, required, nullable=false) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}
            {{- kind(spec['items'], required) + "[]" }}
        {%- else -%}
            {{- "any[]" }}
        {%- endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}
        {{- spec.type | join(" | ") }}
    {%- elif spec.enum -%}
        {{- '"' + spec.enum|join('" | "') + '"' }}
    {%- else -%}
        {{- spec.type ~ ('?' if nullable else '') }}
    {%- endif -%}
    {%- if spec.default is defined %}{{ ' // default: ' ~ spec.default|tojson }}{% endif -%}
{%- endmacro -%}
{%- if tools %}
{{- "namespace functions {\\n\\n" }}
{%- for tool in tools %}
    {%- set tool = tool.function %}
    {{- "// " + tool.description + "\\n" if tool.description }}
    {{- "type "+ tool.name + " = " }}
    {%- if tool.parameters and tool.parameters.properties %}
        {{- "(_: {\\n" }}
        {%- for name, spec in tool.parameters.properties.items() %}
            {{- name }}
            {%- if name not in (tool.parameters.required or []) %}{{- "?" }}{%- endif -%}
            {{- ": " + kind(spec, tool.parameters.required, nullable=loop.last) }}
            {{- ",\\n" if not loop.last else "\\n" }}
        {%- endfor %}
        {{- "}) => any;\\n\\n" }}
    {%- else %}
        {{- "() => any;\\n\\n" }}
    {%- endif %}
{%- endfor %}
{{- "}" }}
{%- endif %}
{%- set last = messages|last %}
{%- for message in messages if message.role in ['user', 'assistant'] -%}
    {%- if loop.index > 3 %}{% break %}{% endif -%}
    {{- "<|" + message.role + "|>" + message.content|string ~ ("!" if message == last else "") }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"""

FAMILIES = {name: text for name, text in globals().items() if isinstance(text, str) and name.isupper()}


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

"""Templates as models have them, written for this test: how they frame turns, trim, check roles, tell tools,
thoughts, documents and dates, by whatever parts of Jinja each of that is done with.
"""

# Marks around each turn.
MARKED_TURNS = """{% for m in messages %}{{ '[' + m.role + ']\n' + (m.content or '')|string + '[end]\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '[assistant]\n' }}{% endif %}"""

# Only two roles that take turns; a system's words stand in the first question.
TWO_ROLES = """{%- set system = messages[0]['content'] if messages and messages[0]['role'] == 'system' else none %}
{%- set rest = messages[1:] if system is not none else messages %}
{{- bos_token }}
{%- for m in rest %}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant take turns, not ' + m['role']) }}
    {%- endif %}
    {%- if m['role'] == 'user' %}
        {{- '<ask>' }}{% if loop.first and system %}{{ system }}\n\n{% endif %}{{ m['content'] | trim }}{{- '</ask>' }}
    {%- elif m.tool_calls is defined %}
        {{- '<calls>' + m.tool_calls | map(attribute='function') | list | tojson + '</calls>' }}
    {%- else %}
        {{- ' ' + m['content'].strip() + eos_token }}
    {%- endif %}
{%- endfor %}"""

# Tools as JSON, one a line; answers of tools that follow each other stand in one turn.
TOOLS_IN_LINES = """{%- if tools %}
<system>
    {%- if messages and messages[0].role == 'system' and messages[0].content is string %}{{ '\n' ~ messages[0].content }}{% endif %}

Tools:
    {%- for tool in tools %}{{ '\n' ~ (tool | tojson) }}{% endfor %}

</system>
{% elif messages and messages[0].role == 'system' %}
<system>
{{ messages[0].content }}
</system>
{% endif %}
{% for m in messages %}
{% if m.role in ('user', 'assistant') and not m.tool_calls %}
<{{ m.role }}>
{{ m.content }}
</{{ m.role }}>
{% elif m.tool_calls %}
<assistant>
{% if m.content %}
{{ m.content }}
{% endif %}
{% for call in m.tool_calls %}
{%- set f = call.function if call.function is defined else call %}
{"call": {{ f.name | tojson }}, "with": {% if f.arguments is string %}{{ f.arguments }}{% else %}{{ f.arguments | tojson }}{% endif %}}
{% endfor %}
</assistant>
{% elif m.role == 'tool' %}
{% if loop.first or loop.previtem.role != 'tool' %}
<results>
{% endif %}
{{ m.content if m.content is string else m.content | tojson(indent=2) }}
{% if loop.last or loop.nextitem.role != 'tool' %}
</results>
{% endif %}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}
<assistant>
{% endif %}"""

# Thoughts of earlier turns are left out, found from the end.
THOUGHTS = """{%- set ns = namespace(last=messages|length, looking=true) %}
{%- for m in messages[::-1] %}
    {%- set at = messages|length - 1 - loop.index0 %}
    {%- if ns.looking and m.role == 'user' and m.content is string %}
        {%- set ns.last = at %}{% set ns.looking = false %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set text = m.content if m.content is string else '' %}
    {%- set thought = '' %}
    {%- if m.reasoning_content is string %}
        {%- set thought = m.reasoning_content %}
    {%- elif '</think>' in text %}
        {%- set thought = text.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
        {%- set text = text.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '#' ~ m.role ~ '\n' }}
    {%- if m.role == 'assistant' and loop.index0 > ns.last and thought %}{{ '(' ~ thought.strip('\n') ~ ')\n' }}{% endif %}
    {{- text ~ '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '#assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{ '()\n' }}{% endif %}
{%- endif %}"""

# Types of parameters by a macro that calls itself; dates; sets in other orders.
TYPES = """{%- macro type_of(spec, deep=0) -%}
    {%- if spec.type is string -%}
        {%- if spec.type == 'array' -%}{{ 'list<' ~ type_of(spec['items'], deep=deep + 1) ~ '>' }}
        {%- elif spec.enum -%}{{ spec.enum | map('tojson') | join(' | ') }}
        {%- else -%}{{ {'string': 'str', 'integer': 'int'}.get(spec.type, spec.type) }}{%- endif -%}
    {%- elif spec.type is iterable -%}{{ spec.type | join('|') }}
    {%- else -%}any{%- endif -%}
{%- endmacro -%}
{%- set date = strftime_now('%d %b %Y') if strftime_now is defined else 'some day' -%}
Today is {{ date }}.
{% for tool in tools or [] -%}
{%- set f = tool.function -%}
def {{ f.name }}(
{%- for name, spec in f.parameters.properties | dictsort -%}
{{ name }}: {{ type_of(spec) }}{{ ' = ' ~ spec.default if spec.default is defined }}{{ ', ' if not loop.last }}
{%- endfor %}){% if f['return'] %} -> {{ type_of(f['return']) }}{% endif %}

{% if f.description %}    # {{ f.description | replace('"', "'") }}
{% endif %}
{% else %}no tools
{% endfor %}
{%- for m in messages if m.role != 'system' %}{{ loop.index }}/{{ loop.length }} {{ m.role | title }}: {{ m.content | string | upper if loop.last else m.content | string | capitalize }}
{% endfor %}"""

# Documents, parts of a turn, and what is not to be there.
PARTS = """{%- if documents %}{% for d in documents %}{{ 'Document ' ~ loop.index0 ~ ': ' ~ (d.title or 'untitled') ~ ' ' ~ d['text'] | trim ~ '\n' }}{% endfor %}{% endif %}
{%- for m in messages %}
    {%- if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('no such role: ' ~ m.role) }}{% endif %}
    {%- if m.content is string %}{{ m.role[0] | upper ~ '> ' ~ m.content }}
    {%- elif m.content is sequence and m.content is not mapping %}
        {%- for part in m.content | selectattr('type', 'equalto', 'text') %}{{ part.text }}{% endfor %}
        {%- set others = m.content | rejectattr('type', 'eq', 'text') | list %}
        {%- if others | length > 0 %}{{ '+' ~ others | length }}{% endif %}
    {%- elif m.content is none or m.content is undefined %}-
    {%- else %}{{ m.content | items | list | tojson }}{% endif %}
    {{- '\n' if not loop.last else '' }}
{%- endfor %}
{%- if controls is defined and controls.citations %} [cite]{% endif %}"""

# Only some turns, by break and continue; what training masks.
SOME_TURNS = """{% for m in messages %}
{% if m.role == 'system' %}{% continue %}{% endif %}
{% if loop.index > 3 %}...{% break %}{% endif %}
{% generation %}
{{ m.role }}={{ m.content | default('?', true) }}
{% endgeneration %}
{% endfor %}
{% set tail %}{% if add_generation_prompt %}assistant={% else %}{{ eos_token }}{% endif %}{% endset %}
{{ tail | trim }}"""

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

#include "yaml_tree.h"

#include <libfyaml.h>
#include <string.h>

/* A list or mapping that is still open while events arrive. */
struct frame {
    struct ynode *node;
    struct ynode *key; /* of a mapping, once read and until its value is */
    bool duplicate;
};

struct build {
    struct yaml *y;
    struct frame frames[YAML_DEPTH_MAX];
    uint32_t depth;
    struct ynode *root;
    uint32_t documents;
};

/*
 * What must not reach libfyaml 0.7.12: it loops for ever on some directives ("%" 0x8d), and takes time quadratic in the
 * length of a tag with escapes, which the limit on lines bounds.
 */
static bool check_bytes(struct yaml *y, const char *text, size_t text_len)
{
    struct place place = { 1, 1 };
    size_t line_at = 0;

    for (size_t i = 0; i < text_len;) {
        uint32_t code = 0;
        size_t len = utf8_decode(text + i, text_len - i, &code);
        if (len == 0) {
            yaml_error_at(y, place, "byte 0x%02x is no UTF-8 here; save the file as UTF-8", (unsigned char)text[i]);
            return false;
        }
        if (!yaml_character_ok(code)) {
            yaml_error_at(y, place,
                          "character U+%04X is not allowed; only tab and line breaks are, of the control characters",
                          code);
            return false;
        }
        if (code == '%' && place.column == 1) {
            yaml_error_at(y, place, "a line may not begin with '%%': directives are not part of the language");
            return false;
        }
        i += len;
        if (i - line_at > YAML_LINE_BYTES_MAX) {
            yaml_error_at(y, place, "a line of more than %d bytes; break it", (int)YAML_LINE_BYTES_MAX);
            return false;
        }
        if (code == '\n' || (code == '\r' && !(i < text_len && text[i] == '\n'))) {
            place = (struct place){ place.line + 1, 1 };
            line_at = i;
        } else {
            place.column++;
        }
    }
    return true;
}

static struct place place_of(const struct fy_mark *mark)
{
    if (!mark || mark->line < 0 || mark->column < 0)
        return (struct place){ 1, 1 };
    return (struct place){ (uint32_t)mark->line + 1, (uint32_t)mark->column + 1 };
}

static struct ynode *new_node(struct build *b, enum ynode_kind kind, struct place place)
{
    struct yaml *y = b->y;
    if (++y->nodes_len > YAML_NODES_MAX) {
        yaml_error_at(y, place, "more than %d values; split the scenario", (int)YAML_NODES_MAX);
        return NULL;
    }
    struct ynode *n = arena_alloc(&y->arena, sizeof *n);
    n->kind = kind;
    n->place = place;
    n->set = y->set;
    return n;
}

static void append(struct ynode *parent, struct ynode *n)
{
    n->parent = parent;
    if (parent->last)
        parent->last->next = n;
    else
        parent->first = n;
    parent->last = n;
    parent->len++;
}

static bool take_key(struct build *b, struct frame *f, struct ynode *n)
{
    if (n->kind != YNODE_SCALAR || n->text[0] == '\0') {
        yaml_error(b->y, n, "a key must be a word, as in 'pages: 64'");
        return false;
    }
    if (f->node->len == YAML_KEYS_MAX) {
        yaml_error(b->y, n, "more than %d keys in one mapping", (int)YAML_KEYS_MAX);
        return false;
    }
    const struct ynode *before = yaml_get(f->node, n->text);
    f->duplicate = before != NULL;
    if (before)
        yaml_error(b->y, n, "key '%.60s' is given twice, first in line %u; remove one", n->text,
                   before->key->place.line);
    f->key = n;
    return true;
}

/* Puts a new value where the open list or mapping wants one. A mapping's first, third, ... value is a key. */
static bool take(struct build *b, struct ynode *n)
{
    if (b->depth == 0) {
        b->root = n;
        return true;
    }
    struct frame *f = &b->frames[b->depth - 1];
    if (f->node->kind == YNODE_LIST) {
        append(f->node, n);
        return true;
    }
    if (!f->key)
        return take_key(b, f, n);
    n->key = f->key;
    f->key = NULL;
    if (f->duplicate)
        n->parent = f->node;
    else
        append(f->node, n);
    return true;
}

static bool open_frame(struct build *b, struct ynode *n)
{
    if (b->depth == YAML_DEPTH_MAX) {
        yaml_error(b->y, n, "nested more than %d deep; no part of a scenario is", (int)YAML_DEPTH_MAX);
        return false;
    }
    if (!take(b, n))
        return false;
    b->frames[b->depth++] = (struct frame){ .node = n };
    return true;
}

/*
 * Bytes of a scalar, copied to `text` unless NULL. By chunks, since fy_token_get_text() of libfyaml 0.7.12 leaks with some
 * single-quoted texts. It also makes three quotes of two doubled ones ('a''''b'), which *twins reports.
 */
static size_t scalar_bytes(struct fy_token *value, char *text, bool *twins)
{
    struct fy_token_iter *iter = fy_token_iter_create(value);
    const struct fy_iter_chunk *chunk = NULL;
    bool quote_before = false;
    size_t text_len = 0;
    int error = 0;

    while (iter && (chunk = fy_token_iter_chunk_next(iter, chunk, &error))) {
        bool quote = chunk->len == 1 && chunk->str[0] == '\'';
        *twins = *twins || (quote && quote_before);
        quote_before = quote;
        if (text)
            memcpy(text + text_len, chunk->str, chunk->len);
        text_len += chunk->len;
    }
    if (iter)
        fy_token_iter_destroy(iter);
    return text_len;
}

static struct ynode *new_scalar(struct build *b, struct fy_token *value, struct place place)
{
    struct ynode *n = new_node(b, YNODE_SCALAR, place);
    bool twins = false;
    if (!n)
        return NULL;
    enum fy_scalar_style style = value ? fy_token_scalar_style(value) : FYSS_PLAIN;
    size_t text_len = value ? scalar_bytes(value, NULL, &twins) : 0;
    n->plain = style == FYSS_PLAIN;
    if ((style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) && n->place.column > 1)
        n->place.column--;
    if (twins && style == FYSS_SINGLE_QUOTED) {
        yaml_error(b->y, n, "quotes side by side in a single-quoted text; put it in double quotes");
        return NULL;
    }
    char *text = arena_alloc(&b->y->arena, text_len + 1);
    if (value)
        scalar_bytes(value, text, &twins);
    n->text = text;

    /* Escapes in double quotes can spell what the file itself may not contain. */
    for (size_t i = 0; i < text_len;) {
        uint32_t code = 0;
        size_t len = utf8_decode(n->text + i, text_len - i, &code);
        if (len == 0 || !yaml_character_ok(code)) {
            yaml_error(b->y, n, "this text spells a control character; leave it out");
            return NULL;
        }
        i += len;
    }
    return n;
}

/* Marks of anchors and aliases stand after their sign, those of quoted texts after the quote. */
static bool refuse(struct build *b, struct fy_token *token, bool sign, const char *what)
{
    if (!token)
        return true;
    struct place place = place_of(fy_token_start_mark(token));
    if (sign && place.column > 1)
        place.column--;
    yaml_error_at(b->y, place, "%s are not part of the language; write the value itself", what);
    return false;
}

/* An empty value has no token of its own: it stands where its key does. */
static struct place event_place(const struct build *b, struct fy_event *e)
{
    const struct fy_mark *mark = fy_event_start_mark(e);
    if (mark)
        return place_of(mark);
    for (uint32_t i = b->depth; i > 0; i--) {
        if (b->frames[i - 1].key)
            return b->frames[i - 1].key->place;
        if (b->frames[i - 1].node->place.line)
            return b->frames[i - 1].node->place;
    }
    return (struct place){ 1, 1 };
}

static bool take_event(struct build *b, struct fy_event *e)
{
    struct place place = event_place(b, e);
    struct ynode *n;

    switch (e->type) {
    case FYET_DOCUMENT_START:
        if (++b->documents == 1)
            return true;
        yaml_error_at(b->y, place, "a second document starts here; a file holds one scenario");
        return false;
    case FYET_ALIAS:
        return refuse(b, e->alias.anchor, true, "aliases");
    case FYET_SCALAR:
        if (!refuse(b, e->scalar.anchor, true, "anchors") || !refuse(b, e->scalar.tag, false, "tags"))
            return false;
        n = new_scalar(b, e->scalar.value, place);
        return n && take(b, n);
    case FYET_SEQUENCE_START:
        if (!refuse(b, e->sequence_start.anchor, true, "anchors") || !refuse(b, e->sequence_start.tag, false, "tags"))
            return false;
        n = new_node(b, YNODE_LIST, place);
        return n && open_frame(b, n);
    case FYET_MAPPING_START:
        if (!refuse(b, e->mapping_start.anchor, true, "anchors") || !refuse(b, e->mapping_start.tag, false, "tags"))
            return false;
        n = new_node(b, YNODE_MAP, place);
        return n && open_frame(b, n);
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END:
        b->depth--;
        return true;
    default:
        return true;
    }
}

static void no_output(struct fy_diag *diag, void *user, const char *buf, size_t len)
{
    (void)diag, (void)user, (void)buf, (void)len;
}

static void report_syntax(struct yaml *y, struct fy_diag *diag)
{
    void *prev = NULL;
    const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &prev);
    if (!first) {
        yaml_error_at(y, (struct place){ 0 }, "not YAML");
        return;
    }
    /* Unlike marks, these count from 1. */
    struct place place = { first->line > 0 ? (uint32_t)first->line : 1,
                           first->column > 0 ? (uint32_t)first->column : 1 };
    yaml_error_at(y, place, "not YAML: %s", first->msg);
}

/* One document from `text`; NULL with *failed unset if it is empty. */
static struct ynode *build_tree(struct yaml *y, const char *text, size_t text_len, bool *failed)
{
    struct build b = { .y = y };
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = no_output;
    diag_cfg.level = FYET_ERROR;
    diag_cfg.colorize = false;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (diag)
        fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_JSON_NONE | FYPCF_DEFAULT_VERSION_1_2,
                                .diag = diag };
    struct fy_parser *parser = diag ? fy_parser_create(&cfg) : NULL;
    bool ok = parser && fy_parser_set_string(parser, text, text_len) == 0;

    if (!ok)
        yaml_error_at(y, (struct place){ 0 }, "the YAML library can't be started");
    while (ok) {
        struct fy_event *e = fy_parser_parse(parser);
        if (!e) {
            if (fy_parser_get_stream_error(parser)) {
                report_syntax(y, diag);
                ok = false;
            }
            break;
        }
        ok = take_event(&b, e);
        fy_parser_event_free(parser, e);
    }
    if (parser)
        fy_parser_destroy(parser);
    if (diag)
        fy_diag_destroy(diag);
    *failed = !ok;
    return ok ? b.root : NULL;
}

struct ynode *yaml_get(const struct ynode *map, const char *key)
{
    if (map && map->kind == YNODE_MAP)
        for (struct ynode *n = map->first; n; n = n->next)
            if (strcmp(n->key->text, key) == 0)
                return n;
    return NULL;
}

static struct ynode *list_at(const struct ynode *list, const char *word)
{
    uint32_t idx = 0;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9' || idx > YAML_NODES_MAX)
            return NULL;
        idx = idx * 10 + (uint32_t)(*c - '0');
    }
    struct ynode *n = list->first;
    while (n && idx--)
        n = n->next;
    return n;
}

static struct ynode *add_key(struct build *b, struct ynode *map, const char *word)
{
    if (map->len == YAML_KEYS_MAX) {
        yaml_error_at(b->y, (struct place){ 0 }, "more than %d keys in one mapping", (int)YAML_KEYS_MAX);
        return NULL;
    }
    struct ynode *key = new_node(b, YNODE_SCALAR, map->place);
    struct ynode *value = key ? new_node(b, YNODE_MAP, map->place) : NULL;
    if (!value)
        return NULL;
    key->text = word;
    key->plain = true;
    value->key = key;
    append(map, value);
    return value;
}

/* One step along the path. A key that is missing in a mapping is added: whether it may be there, the readers know. */
static struct ynode *descend(struct build *b, struct ynode *at, const char *word)
{
    struct ynode *n = NULL;
    if (*word == '\0')
        yaml_error_at(b->y, (struct place){ 0 },
                      "an empty word in the path; write it as in 'topology.decode.pages=66'");
    else if (at->kind == YNODE_MAP)
        return (n = yaml_get(at, word)) ? n : add_key(b, at, word);
    else if (at->kind == YNODE_LIST && !(n = list_at(at, word)))
        yaml_error_at(b->y, (struct place){ 0 }, "'%.60s' is no item of this list; it has %u, counted from 0", word,
                      at->len);
    else if (at->kind == YNODE_SCALAR)
        yaml_error_at(b->y, (struct place){ 0 }, "nothing below '%.60s' can be set: it stands below a single value",
                      word);
    return n;
}

static void replace(struct ynode *n, const struct ynode *by)
{
    n->kind = by->kind;
    n->plain = by->plain;
    n->place = by->place;
    n->set = by->set;
    n->text = by->text;
    n->first = by->first;
    n->last = by->last;
    n->len = by->len;
    for (struct ynode *child = n->first; child; child = child->next)
        child->parent = n;
}

static bool apply_set(struct yaml *y, const char *argument)
{
    struct build b = { .y = y };
    const char *equals = strchr(argument, '=');
    if (strlen(argument) > YAML_SET_MAX) {
        yaml_error_at(y, (struct place){ 0 }, "longer than %d bytes", (int)YAML_SET_MAX);
        return false;
    }
    if (!check_bytes(y, argument, strlen(argument)))
        return false;
    if (!equals || equals == argument) {
        yaml_error_at(y, (struct place){ 0 }, "no path and value; write it as in 'topology.decode.pages=66'");
        return false;
    }
    if (strpbrk(argument, "\r\n")) {
        yaml_error_at(y, (struct place){ 0 },
                      "a line break; write the value in one line, as in 'core={base: unpatched}'");
        return false;
    }

    bool failed = false;
    struct ynode *value = build_tree(y, equals + 1, strlen(equals + 1), &failed);
    if (failed)
        return false;
    if (!value) {
        yaml_error_at(y, (struct place){ 0 }, "no value after '='");
        return false;
    }
    char *word = arena_copy(&y->arena, argument, (size_t)(equals - argument));
    struct ynode *at = y->root;
    while (at && word) {
        char *dot = strchr(word, '.');
        if (dot)
            *dot = '\0';
        at = descend(&b, at, word);
        word = dot ? dot + 1 : NULL;
    }
    if (!at)
        return false;
    replace(at, value);
    return true;
}

bool yaml_init(struct yaml *y, const char *path, const char *text, size_t text_len, const char *const *sets,
               uint32_t sets_len, FILE *errors)
{
    *y = (struct yaml){
        .path = path, .text = text, .text_len = text_len, .sets = sets, .sets_len = sets_len, .errors = errors
    };

    if (text_len > SCENARIO_FILE_MAX) {
        yaml_error_at(y, (struct place){ 0 }, "the file is longer than %d bytes; no scenario needs so many",
                      (int)SCENARIO_FILE_MAX);
        return false;
    }
    if (text_len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        y->text += 3;
        y->text_len -= 3;
    }
    if (!check_bytes(y, y->text, y->text_len))
        return false;
    bool failed = false;
    y->root = build_tree(y, y->text, y->text_len, &failed);
    if (failed)
        return false;
    if (!y->root) {
        yaml_error_at(y, (struct place){ 1, 1 }, "the file is empty; a scenario starts with 'scenario: NAME'");
        return false;
    }
    for (y->set = 1; y->set <= sets_len; y->set++)
        if (!apply_set(y, sets[y->set - 1]))
            return false;
    y->set = 0;
    return true;
}

void yaml_fini(struct yaml *y)
{
    arena_fini(&y->arena);
    y->root = NULL;
}

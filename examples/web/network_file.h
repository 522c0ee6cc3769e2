/* network_file.h - networks pass between the instances of a page as files in memory. The page copies the bytes at file()
   from one instance to the other, between save and load. Set `network` in begin. */

static struct {
    fold_model *network; /* what is saved and loaded */
    unsigned char bytes[1 << 18];
    size_t size;
} network_file;

unsigned char *PAGE(file)(void) { return network_file.bytes; }

void PAGE(load)(int size)
{
    if (fold_model_load_memory(network_file.network, network_file.bytes, (size_t)size, NULL))
        fail(fold_model_message(network_file.network));
}

static int append(const void *bytes, size_t size, void *user)
{
    (void)user;
    if (size > sizeof network_file.bytes - network_file.size) return 1;
    memcpy(network_file.bytes + network_file.size, bytes, size);
    network_file.size += size;
    return 0;
}

/* Returns the size of the file. */
int PAGE(save)(void)
{
    network_file.size = 0;
    if (fold_model_save_to(network_file.network, append, NULL, NULL)) fail(fold_model_message(network_file.network));
    return (int)network_file.size;
}

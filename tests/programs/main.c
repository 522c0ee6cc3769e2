/* The main of a test that was compiled with -Dmain=hosted_main, so that others can be linked to it. */
int hosted_main(int, char **);
int main(int count, char **words) { return hosted_main(count, words); }
